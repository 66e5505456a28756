/* Numbers with names, for Promela and C alike; the command gives KEY_n, LANE_n, BUG and the MAX_ budgets. */
#define PROCESSES 3
#define EVENTS 3
#ifndef LANES
#define LANES 2
#endif
#define IDS 3
#define NOBODY 9

/* transaction */
#define NEW 0
#define OPEN 1
#define COMMITTED 2
#define ROLLED_BACK 3

/* row */
#define NO_ROW 0
#define PENDING 1
#define RETRY 2
#define DONE 3
#define NO_TOKEN 0
#define HOT_TOKEN 1
#define OWNER_TOKEN 2

/* worker */
#define UNKNOWN 0
#define ALIVE 1
#define LAPSED 2
#define FENCED 3

/* a delivery in the memory of a process */
#define NOT_HERE 0
#define QUEUED 1         /* waits for its turn */
#define RUNNING 2        /* its right was checked; it is sent any moment now */
#define SENT 3           /* accepted; the next of its key may go */
#define FAILED 4         /* refused; its key is closed */
#define WRITING_SENT 5   /* the settle has checked the right, and locked the worker's row */
#define WRITING_FAILED 6
#define KEPT_SENT 7      /* settled, but a read is under way that may show it as pending */
#define KEPT_FAILED 8
#define EXTENDING 9      /* a born claim that must be extended before it is queued */
#define FORGOTTEN 10     /* a born claim that is extended for ever and never sent */

/* planted mistakes */
#define NO_BUG 0
#define NO_FENCE_ON_SETTLE 1
#define EXISTS_WITHOUT_LOCK 2
#define FENCE_WITHOUT_WAITING 3
#define TOKEN_NOT_CHECKED 4
#define TOKEN_NOT_REPLACED 5
#define CURSOR_WITHOUT_SWEEP 6
#define KEYED_WITHOUT_SWEEP 7
#define DISPATCH_BEFORE_COMMIT 8
#define HANDOVER_IN_FLIGHT 9
#define CLAIM_WITHOUT_HEADS 10
#define LEASE_FROM_START 11
#define RELEASE_FORGOTTEN 12
#define NO_READ_GUARD 13
#define OLD_READ_AFTER_FAILURE 14
#define TAKE_WITHOUT_FENCE 15
