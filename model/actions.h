/*
 * The actions of outbox.pml: `can_x` says when x may happen, `x` is what it does, in one step. Processes, events and
 * lanes are numbered from 0, and told of from 1.
 */
/* Set when a history is told once more. */
extern int readtrail;
#define name(p) (name_of[p] + 1)
#define tell(...) do { if (readtrail) { printf("  "); printf(__VA_ARGS__); printf("\n"); } } while (0)

static void look(void) {
  const char *property = broken_property();
  if (!property) {
    make_canonical();
    return;
  }
  if (readtrail) printf("VIOLATED %s\n", property);
  now.broken = 1;
}

static void begin(int first, int second) {
  for (int p = 0; p < PROCESSES; p++) now.up[p] = now.id[p] = WK(p, 1) = 1;
  for (int e = 0; e < EVENTS; e++) now.txOf[e] = now.offered[e] = NOBODY;
  for (int l = 0; l < LANES; l++) {
    now.owner[l] = l == 0 ? first : second;
    now.ownerId[l] = 1;
    now.own[now.owner[l]] |= 1 << l;
    tell("p%d has lane %d", name(now.owner[l]), l + 1);
  }
}

static void put(int p, int e, int phase, int right) {
  PH(p, e) = phase;
  RT(p, e) = right;
}

static void write_row(int e, int status, int token, int is_due) {
  now.st[e] = status;
  now.tok[e] = token;
  now.due[e] = is_due;
}

/* ------------------------------------------------------------------------------------------------- publishing */

/* Events of one key are alike, so they are published in the order of their numbers. */
static int can_insert(int e) {
  for (int f = 0; f < e; f++)
    if (same_key(e, f) && now.tx[f] == NEW) return 0;
  return now.tx[e] == NEW;
}
static void insert(int e) {
  int last = 0;
  for (int f = 0; f < EVENTS; f++) {
    if (now.seq[f] > last) last = now.seq[f];
    if (same_key(e, f) && now.tx[f] == COMMITTED) now.before[e] |= 1 << f;
  }
  now.seq[e] = last + 1;
  now.tx[e] = OPEN;
  write_row(e, PENDING, NO_TOKEN, 1);
}

/* With a key it does not matter who inserts it, only who hears of the commit. */
static int can_publish_keyed(int e) { return key_of[e] != 0 && can_insert(e); }
static void publish_keyed(int e) {
  insert(e);
  tell("e%d is inserted, with key %c", e + 1, 'a' + key_of[e] - 1);
}

/* Without a key it is born claimed. Counted from the beginning of a long transaction, the lease may be over already. */
static int can_publish_hot(int p, int e) { return key_of[e] == 0 && now.up[p] && can_insert(e); }
static void publish_hot(int p, int e) {
  insert(e);
  write_row(e, PENDING, HOT_TOKEN, BUG == LEASE_FROM_START);
  now.txOf[e] = p;
  now.claim[e] = 1;
  tell("p%d inserts e%d, without a key and with its token", name(p), e + 1);
}

static void undo(int e) {
  now.tx[e] = ROLLED_BACK;
  now.txOf[e] = NOBODY;
  now.claim[e] = 0;
  write_row(e, NO_ROW, NO_TOKEN, 0);
}

static int can_roll_back(int e) { return now.tx[e] == OPEN && now.rollbacks > 0; }
static void roll_back(int e) {
  now.rollbacks--;
  undo(e);
  tell("the transaction of e%d is rolled back", e + 1);
}

/* The publisher hears of it: what was born claimed goes straight into its queue. */
static int can_commit_hot(int e) { return now.tx[e] == OPEN && key_of[e] == 0; }
static void commit_hot(int e) {
  int p = now.txOf[e];
  now.tx[e] = COMMITTED;
  now.txOf[e] = NOBODY;
  if (PH(p, e) == NOT_HERE) put(p, e, now.claim[e] ? QUEUED : EXTENDING, 0);
  tell("p%d commits e%d", name(p), e + 1);
}

/* By a process that has the event's lane, so that it may claim the row by its id. */
static int can_commit_keyed(int p, int e) {
  return now.tx[e] == OPEN && key_of[e] != 0 && has(readable(p), lane_of[e]);
}
static void commit_keyed(int p, int e) {
  now.tx[e] = COMMITTED;
  now.offered[e] = p;
  tell("p%d commits e%d", name(p), e + 1);
}

/* By somebody else, or by one who did not get the answer to COMMIT: nobody dispatches. */
static int can_commit_unheard(int e) { return now.tx[e] == OPEN; }
static void commit_unheard(int e) {
  now.tx[e] = COMMITTED;
  now.txOf[e] = NOBODY;
  now.claim[e] = 0;
  tell("e%d is committed, and nobody here hears of it", e + 1);
}

static int can_dispatch_early(int e) {
  return BUG == DISPATCH_BEFORE_COMMIT && can_commit_hot(e) && PH(now.txOf[e], e) == NOT_HERE;
}
static void dispatch_early(int e) {
  put(now.txOf[e], e, QUEUED, 0);
  tell("p%d queues e%d before its commit", name(now.txOf[e]), e + 1);
}

/* ------------------------------------------------------------------------------------------------- hot claims */

static int publisher_has(int e) {
  for (int p = 0; p < PROCESSES; p++)
    if (PH(p, e) != NOT_HERE && RT(p, e) == 0) return PH(p, e);
  return NOT_HERE;
}

/* By the database's clock, and no later by the publisher's own. With nobody to extend it, it always does. */
static int can_hot_lapse(int e) {
  if (now.st[e] != PENDING || now.tok[e] != HOT_TOKEN || now.due[e]) return 0;
  if (now.txOf[e] == NOBODY && publisher_has(e) == NOT_HERE) return 1;
  return now.hotLapses > 0 && publisher_has(e) != FORGOTTEN;
}
static void hot_lapse(int e) {
  if (publisher_has(e) != NOT_HERE) now.clean = 0;
  if (publisher_has(e) != NOT_HERE || now.txOf[e] != NOBODY) now.hotLapses--;
  now.due[e] = 1;
  now.claim[e] = 0;
  tell("the hot claim of e%d runs out", e + 1);
}

/* By its token, even if the lease ran out in the meantime; one whose token was replaced is lost. */
static int can_extend(int p, int e) {
  return RT(p, e) == 0 && (PH(p, e) == EXTENDING || PH(p, e) == QUEUED) && !now.claim[e];
}
static void extend(int p, int e) {
  if (visible(e) && now.tok[e] == HOT_TOKEN) {
    now.due[e] = 0;
    now.claim[e] = 1;
    PH(p, e) = QUEUED;
    tell("p%d extends its claim of e%d", name(p), e + 1);
  } else {
    put(p, e, NOT_HERE, 0);
    tell("p%d hears that its claim of e%d is lost", name(p), e + 1);
  }
}

/* A full queue, a pause, an open breaker: the claim goes back to the lane's owner. */
static int can_release(int p, int e) { return PH(p, e) == QUEUED && RT(p, e) == 0 && now.tx[e] == COMMITTED; }
static void release(int p, int e) {
  if (BUG == RELEASE_FORGOTTEN) {
    PH(p, e) = FORGOTTEN;
    tell("p%d drops e%d from its queue and keeps the claim", name(p), e + 1);
    return;
  }
  put(p, e, NOT_HERE, 0);
  now.claim[e] = 0;
  if (visible(e) && now.tok[e] == HOT_TOKEN) write_row(e, now.st[e], NO_TOKEN, 1);
  tell("p%d releases e%d", name(p), e + 1);
}

/* -------------------------------------------------------------------------------------- what leaves a process */

/* What is settled stays in flight here until the read that is under way was dealt with. */
static void forget(int p, int e, int accepted) {
  if (now.reading[p] == 0 || BUG == NO_READ_GUARD) put(p, e, NOT_HERE, 0);
  else put(p, e, accepted ? KEPT_SENT : KEPT_FAILED, 0);
}

/* The head failed, or the right to it is gone: what waits behind it leaves, and is read again. */
static void close_key(int p, int e) {
  for (int f = 0; f < EVENTS; f++) {
    if (!same_key(e, f)) continue;
    if (PH(p, f) == QUEUED) put(p, f, NOT_HERE, 0);
    /* The read that is under way took those rows for being in our hands: it says nothing about this key. */
    if (BUG != OLD_READ_AFTER_FAILURE) {
      now.seen[p] &= ~(1 << f);
      now.held[p] &= ~(1 << f);
    }
  }
}

static void ended(int p, int e, int accepted) {
  if (!accepted) close_key(p, e);
  forget(p, e, accepted);
}

/* Lanes came or went: whatever the read that is under way will bring is thrown away. */
static void void_read(int p) {
  now.reading[p] = now.seen[p] = now.held[p] = now.marked[p] = 0;
  for (int e = 0; e < EVENTS; e++)
    if (PH(p, e) == KEPT_SENT || PH(p, e) == KEPT_FAILED) put(p, e, NOT_HERE, 0);
}

static void drop_queued(int p, int lanes) {
  for (int e = 0; e < EVENTS; e++)
    if (has(lanes, lane_of[e]) && PH(p, e) == QUEUED && RT(p, e) != 0) put(p, e, NOT_HERE, 0);
}

/* ------------------------------------------------------------------------------------------------ into memory */

/* Right after the commit, for an event with a key. */
static int can_claim_by_id(int p, int e) { return now.offered[e] == p; }
static void claim_by_id(int p, int e) {
  int first = BUG == CLAIM_WITHOUT_HEADS || covered(p, e, 0);
  now.offered[e] = NOBODY;
  if (PH(p, e) != NOT_HERE || !has(readable(p), lane_of[e]) || !unfenced(p, now.id[p])) return;
  if (!visible(e) || now.st[e] != PENDING || !first) return;
  put(p, e, QUEUED, now.id[p]);
  tell("p%d claims e%d by its id", name(p), e + 1);
}

static int can_read(int p, int sweep) {
  if (!now.up[p] || now.reading[p] != 0 || !valid(p, now.id[p]) || readable(p) == 0) return 0;
  int answer = rows_of_read(p, sweep);
  if ((sweep ? answer | retries(p) : answer) == 0) return 0;
  return now.idleReads > 0 || admitted(p, answer, retries(p), with_token(answer)) != 0;
}
static void start_read(int p, int sweep) {
  int answer = rows_of_read(p, sweep);
  if (admitted(p, answer, retries(p), with_token(answer)) == 0) now.idleReads--;
  now.reading[p] = 1;
  now.seen[p] = answer;
  now.marked[p] = with_token(answer);
  now.held[p] = retries(p);
}

static int can_read_and_sweep(int p) { return BUG != CURSOR_WITHOUT_SWEEP && can_read(p, 1); }
static void read_and_sweep(int p) {
  start_read(p, 1);
  tell("p%d reads, with a sweep: %s%s%s", name(p), has(now.seen[p] | now.held[p], 0) ? "e1 " : "",
       has(now.seen[p] | now.held[p], 1) ? "e2 " : "", has(now.seen[p] | now.held[p], 2) ? "e3" : "");
}

static int can_read_past_cursor(int p) { return can_read(p, 0); }
static void read_past_cursor(int p) {
  start_read(p, 0);
  tell("p%d reads past its cursor: %s%s%s", name(p), has(now.seen[p] | now.held[p], 0) ? "e1 " : "",
       has(now.seen[p] | now.held[p], 1) ? "e2 " : "", has(now.seen[p] | now.held[p], 2) ? "e3" : "");
}

static int can_admit(int p) { return now.reading[p] != 0; }
static void admit(int p) {
  int set = admitted(p, now.seen[p], now.held[p], now.marked[p]);
  int fresh = past_cursor(p, now.seen[p]);
  for (int e = 0; e < EVENTS; e++) {
    if (has(fresh, e) && now.seq[e] > now.cursor[p]) now.cursor[p] = now.seq[e];
    if (PH(p, e) == KEPT_SENT || PH(p, e) == KEPT_FAILED) put(p, e, NOT_HERE, 0);
    if (!has(set, e)) continue;
    if (has(now.marked[p], e) && BUG != TOKEN_NOT_REPLACED) now.tok[e] = OWNER_TOKEN;
    put(p, e, QUEUED, now.id[p]);
    tell("p%d queues e%d, which it read", name(p), e + 1);
  }
  if (set == 0) tell("p%d queues nothing of what it read", name(p));
  now.reading[p] = now.seen[p] = now.held[p] = now.marked[p] = 0;
}

/* ---------------------------------------------------------------------------------------------------- sending */

/* The right is checked here, by the process's own clock; the sending comes later, perhaps after a long pause. */
static int can_take(int p, int e) { return PH(p, e) == QUEUED && is_head(p, e) && !does(p, RUNNING, RUNNING); }
static void take(int p, int e) {
  if (RT(p, e) == 0 ? now.claim[e] : valid(p, RT(p, e))) {
    PH(p, e) = RUNNING;
    tell("p%d takes e%d", name(p), e + 1);
  } else {
    ended(p, e, 0);
    tell("p%d lets e%d go: its right ran out", name(p), e + 1);
  }
}

static int can_accept(int p, int e) { return PH(p, e) == RUNNING; }
static void accept(int p, int e) {
  PH(p, e) = SENT;
  now.tried[e] = 1;
  if (now.sends[e] < 2) now.sends[e]++;
  tell("p%d sends e%d, which is accepted", name(p), e + 1);
}

static int can_refuse(int p, int e) { return PH(p, e) == RUNNING && now.refusals > 0; }
static void refuse(int p, int e) {
  now.refusals--;
  PH(p, e) = FAILED;
  now.tried[e] = 1;
  tell("p%d sends e%d, which is refused", name(p), e + 1);
}

/* --------------------------------------------------------------------------------------------------- settling */

static void write_outcome(int e, int accepted) {
  if (accepted) write_row(e, DONE, NO_TOKEN, 0);
  else write_row(e, RETRY, NO_TOKEN, 1);
}

static int can_settle_by_token(int p, int e) {
  return RT(p, e) == 0 && (PH(p, e) == SENT || PH(p, e) == FAILED);
}
static void settle_by_token(int p, int e) {
  int accepted = PH(p, e) == SENT, mine = now.tok[e] == HOT_TOKEN;
  int writes = unfinished(e) && (mine || BUG == TOKEN_NOT_CHECKED);
  if (writes) write_outcome(e, accepted);
  if (writes && !mine) now.stale = 1;
  now.claim[e] = 0;
  ended(p, e, accepted);
  tell("p%d settles e%d by its token: %s", name(p), e + 1, writes ? "written" : "lost");
}

/* The right is checked, and the worker's row is locked until the outcome is written. */
static int can_begin_settle(int p, int e) {
  return RT(p, e) != 0 && (PH(p, e) == SENT || PH(p, e) == FAILED) && !does(p, WRITING_SENT, WRITING_FAILED);
}
static void begin_settle(int p, int e) {
  int accepted = PH(p, e) == SENT;
  if (unfenced(p, RT(p, e)) || BUG == NO_FENCE_ON_SETTLE) {
    PH(p, e) = accepted ? WRITING_SENT : WRITING_FAILED;
    tell("p%d begins to settle e%d", name(p), e + 1);
  } else {
    ended(p, e, accepted);
    tell("p%d hears that its right to e%d is lost", name(p), e + 1);
  }
}

static int can_end_settle(int p, int e) { return PH(p, e) == WRITING_SENT || PH(p, e) == WRITING_FAILED; }
static void end_settle(int p, int e) {
  int accepted = PH(p, e) == WRITING_SENT, right = RT(p, e), lane = lane_of[e];
  int mine = unfenced(p, right) && now.owner[lane] == p && now.ownerId[lane] == right;
  if (unfinished(e)) {
    if (!mine) now.stale = 1;
    write_outcome(e, accepted);
  }
  ended(p, e, accepted);
  tell("p%d's settle of e%d is written", name(p), e + 1);
}

/* ------------------------------------------------------------------------------------------ workers and lanes */

/* That of a worker which has nothing to lose would change nothing. */
static int can_lapse(int p, int i) {
  int has_rights = 0;
  for (int l = 0; l < LANES; l++) has_rights |= now.owner[l] == p && now.ownerId[l] == i;
  for (int e = 0; e < EVENTS; e++) has_rights |= RT(p, e) == i;
  return WK(p, i) == ALIVE && has_rights && (!now.up[p] || now.lapses > 0);
}
static void lapse(int p, int i) {
  if (now.up[p]) {
    now.lapses--;
    now.clean = 0;
  }
  WK(p, i) = LAPSED;
  tell("the lease of p%d runs out", name(p));
}

static int can_renew(int p) { return now.up[p] && WK(p, now.id[p]) == LAPSED; }
static void renew(int p) {
  WK(p, now.id[p]) = ALIVE;
  tell("p%d renews its lease, which nobody had fenced", name(p));
}

/* Whoever looks at the workers fences those whose lease ran out, and waits for settles that lock the row. */
static int can_fence(int p, int i) {
  if (WK(p, i) != LAPSED) return 0;
  if (BUG == EXISTS_WITHOUT_LOCK || BUG == FENCE_WITHOUT_WAITING) return 1;
  for (int e = 0; e < EVENTS; e++)
    if (RT(p, e) == i && (PH(p, e) == WRITING_SENT || PH(p, e) == WRITING_FAILED)) return 0;
  return 1;
}
static void fence(int p, int i) {
  WK(p, i) = FENCED;
  tell("p%d is fenced", name(p));
}

/* A fenced process notices: nothing under the old id counts, and it goes on under a new one. */
static int can_start_anew(int p) { return now.up[p] && WK(p, now.id[p]) == FENCED; }
static void start_anew(int p) {
  now.id[p]++;
  WK(p, now.id[p]) = ALIVE;
  drop_queued(p, 255);
  now.own[p] = now.leaving[p] = now.cursor[p] = 0;
  void_read(p);
  tell("p%d starts anew", name(p));
}

static int can_take_lane(int p, int l) {
  int q = now.owner[l];
  if (l >= LANES || !lane_matters(l) || !now.up[p] || !unfenced(p, now.id[p])) return 0;
  if (q == NOBODY) return 1;
  int state = WK(q, now.ownerId[l]);
  return state == FENCED || (BUG == TAKE_WITHOUT_FENCE && state == LAPSED && q != p);
}
static void take_lane(int p, int l) {
  now.owner[l] = p;
  now.ownerId[l] = now.id[p];
  now.own[p] |= 1 << l;
  now.cursor[p] = 0;
  void_read(p);
  tell("p%d takes lane %d", name(p), l + 1);
}

static int can_leave(int p, int l) { return now.up[p] && has(readable(p), l) && now.moves > 0; }
static void leave(int p, int l) {
  now.moves--;
  now.leaving[p] |= 1 << l;
  tell("p%d wants to give up lane %d", name(p), l + 1);
}

/* Queued ones are let go on the spot; everything else of the lane must have ended. */
static int can_give_up(int p, int l) {
  if (!has(now.leaving[p], l) || !unfenced(p, now.id[p])) return 0;
  for (int e = 0; e < EVENTS; e++) {
    if (lane_of[e] != l) continue;
    if (now.offered[e] == p || PH(p, e) == KEPT_SENT || PH(p, e) == KEPT_FAILED) return 0;
    if (RT(p, e) != 0 && PH(p, e) != QUEUED && BUG != HANDOVER_IN_FLIGHT) return 0;
  }
  return 1;
}
static void give_up(int p, int l) {
  drop_queued(p, 1 << l);
  now.owner[l] = NOBODY;
  now.ownerId[l] = 0;
  now.own[p] &= ~(1 << l);
  now.leaving[p] &= ~(1 << l);
  void_read(p);
  tell("p%d gives up lane %d", name(p), l + 1);
}

/* ---------------------------------------------------------------------------------------------------- crashes */

/* A process that starts again is another one. What the database has begun it ends, as if before the crash. */
static int can_crash(int p) {
  return now.up[p] && now.crashes > 0 && !does(p, WRITING_SENT, WRITING_FAILED);
}
static void crash(int p) {
  now.crashes--;
  now.clean = 0;
  now.up[p] = now.own[p] = now.leaving[p] = now.cursor[p] = 0;
  now.reading[p] = now.seen[p] = now.held[p] = now.marked[p] = 0;
  for (int e = 0; e < EVENTS; e++) {
    if (PH(p, e) != NOT_HERE && RT(p, e) == 0) now.claim[e] = 0;
    put(p, e, NOT_HERE, 0);
    if (now.offered[e] == p) now.offered[e] = NOBODY;
    if (now.txOf[e] == p) undo(e);
  }
  tell("p%d crashes", name(p));
}
