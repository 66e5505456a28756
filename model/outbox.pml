/*
 * How Posthaste decides who may send and settle a delivery, for one destination: transactions that commit late, hot
 * claims by token, lanes leased by workers, fences, reads past a cursor with a sweep, settles. docs/model.md says
 * which action is which file, what is left out, and how to run it.
 *
 * Here are the state and the list of all actions. What they do is in actions.h; what must always be true, in rules.h.
 *
 * Time is not counted: a lease may run out at any moment, and a process that is suspended is one whose next step is
 * long in coming. Each action is atomic, and everything may happen between two of them. Faults have budgets, and
 * nothing else can go on for ever: so every history ends, and it must not end before everything is settled.
 */
#include "names.h"

/* the database */
byte tx[EVENTS];
byte seq[EVENTS];             /* position, drawn at insert; 0 before */
byte st[EVENTS];
byte tok[EVENTS];             /* the publisher's token, or one that a lane's owner wrote */
byte due[EVENTS];             /* a read may see it */
byte wk[PROCESSES * IDS];     /* the worker ids of each process */
byte owner[LANES];            /* the process that has the lane, or NOBODY */
byte ownerId[LANES];          /* and under which worker id */

/* the memory of the processes */
byte up[PROCESSES];
byte id[PROCESSES];           /* the worker id in use; a new one after every fence */
byte own[PROCESSES];          /* lanes that it takes for its own */
byte leaving[PROCESSES];      /* those that it is about to give up */
byte ph[PROCESSES * EVENTS];  /* what it does with a delivery */
byte rt[PROCESSES * EVENTS];  /* by which right: 0 the hot token, else the worker id */
byte claim[EVENTS];           /* the publisher's clock says that the hot claim holds */
byte txOf[EVENTS];            /* whose transaction is open, or NOBODY */
byte offered[EVENTS];         /* who committed it and has not yet claimed it by id, or NOBODY */
byte cursor[PROCESSES];
byte reading[PROCESSES];      /* a read is under way */
byte seen[PROCESSES];         /* its answer: pending rows */
byte held[PROCESSES];         /* and retries */
byte marked[PROCESSES];       /* and which of the pending rows carried a token */

/* what happened, to judge by */
byte sends[EVENTS];           /* how often the destination accepted it; 2 is many */
byte tried[EVENTS];
byte before[EVENTS];          /* events of its key that were committed when it was inserted */
byte stale;                   /* a right that had ended changed a row */
byte clean = 1;               /* no crash, and no lease ran out that somebody was using */
byte broken;

/* how much may still happen */
byte lapses = MAX_LAPSES;         /* leases of running workers that run out */
byte hotLapses = MAX_HOT_LAPSES;  /* hot claims that run out in the hands of their publisher */
byte crashes = MAX_CRASHES;
byte refusals = MAX_REFUSALS;
byte rollbacks = MAX_ROLLBACKS;
byte moves = MAX_MOVES;           /* lanes that are given up */
byte idleReads = MAX_IDLE_READS;  /* reads that bring nothing to do when they begin */

c_code {
\#include "names.h"
\#include "rules.h"
\#include "canonical.h"
\#include "actions.h"
};

#define ACT(name, ...) :: d_step { c_expr { (can_##name(__VA_ARGS__)) } -> c_code { name(__VA_ARGS__); look(); }; assert(!broken) }
#define EACH_EVENT(name) ACT(name, 0) ACT(name, 1) ACT(name, 2)
#define EACH_PROCESS(name) ACT(name, 0) ACT(name, 1) ACT(name, 2)
#define EACH_PAIR(name) \
  ACT(name, 0, 0) ACT(name, 0, 1) ACT(name, 0, 2) \
  ACT(name, 1, 0) ACT(name, 1, 1) ACT(name, 1, 2) \
  ACT(name, 2, 0) ACT(name, 2, 1) ACT(name, 2, 2)
#define EACH_LANE(name) \
  ACT(name, 0, 0) ACT(name, 0, 1) ACT(name, 1, 0) ACT(name, 1, 1) ACT(name, 2, 0) ACT(name, 2, 1)
#define EACH_WORKER(name) \
  ACT(name, 0, 1) ACT(name, 0, 2) ACT(name, 0, 3) \
  ACT(name, 1, 1) ACT(name, 1, 2) ACT(name, 1, 3) \
  ACT(name, 2, 1) ACT(name, 2, 2) ACT(name, 2, 3)

init {
  /* Processes are alike, so it is enough to begin with one that has all lanes, and with two that share them. */
  if
  :: d_step { c_code { begin(0, 0); } }
  :: d_step { c_code { begin(0, 1); } }
  fi;
  do
  EACH_EVENT(publish_keyed)
  EACH_PAIR(publish_hot)
  EACH_EVENT(roll_back)
  EACH_EVENT(commit_hot)
  EACH_PAIR(commit_keyed)
  EACH_EVENT(commit_unheard)
  EACH_EVENT(dispatch_early)
  EACH_EVENT(hot_lapse)
  EACH_PAIR(extend)
  EACH_PAIR(release)
  EACH_PAIR(claim_by_id)
  EACH_PROCESS(read_and_sweep)
  EACH_PROCESS(read_past_cursor)
  EACH_PROCESS(admit)
  EACH_PAIR(take)
  EACH_PAIR(accept)
  EACH_PAIR(refuse)
  EACH_PAIR(settle_by_token)
  EACH_PAIR(begin_settle)
  EACH_PAIR(end_settle)
  EACH_WORKER(lapse)
  EACH_PROCESS(renew)
  EACH_WORKER(fence)
  EACH_PROCESS(start_anew)
  EACH_LANE(take_lane)
  EACH_LANE(leave)
  EACH_LANE(give_up)
  EACH_PROCESS(crash)
  :: c_expr { (all_settled()) } -> break
  od
}
