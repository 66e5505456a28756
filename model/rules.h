/*
 * Questions about the state of outbox.pml, in C because Promela has neither functions nor sets. Nothing here changes
 * the state (`now`). A set of events or lanes is a byte with a bit for each.
 */
#define has(set, x) (((set) >> (x)) & 1)
#define PH(p, e) (now.ph[(p) * EVENTS + (e)])
#define RT(p, e) (now.rt[(p) * EVENTS + (e)])
#define WK(p, i) (now.wk[(p) * IDS + (i) - 1])

static const int key_of[] = {KEY_0, KEY_1, KEY_2};
static const int lane_of[] = {LANE_0, LANE_1, LANE_2};

static int same_key(int e, int f) { return key_of[e] != 0 && key_of[e] == key_of[f]; }

static int unfinished(int e) { return now.st[e] == PENDING || now.st[e] == RETRY; }
static int visible(int e) { return now.tx[e] == COMMITTED && unfinished(e); }

/* The database lets this worker change something: a fence ends that, not the clock. */
static int unfenced(int p, int i) { return WK(p, i) == ALIVE || WK(p, i) == LAPSED; }

/* Rights certainly hold by the process's own clock, which ends a lease no later than the database's. */
static int valid(int p, int i) { return i == now.id[p] && WK(p, i) == ALIVE; }

static int readable(int p) { return now.own[p] & ~now.leaving[p]; }

/* ------------------------------------------------------------------------------------------ a key in memory */

static int stalled(int p, int e) {
  for (int f = 0; f < EVENTS; f++)
    if (same_key(e, f) && (PH(p, f) == FAILED || PH(p, f) == WRITING_FAILED)) return 1;
  return 0;
}

/* Everything of the key before e is on its way here, or comes along with it. */
static int covered(int p, int e, int also) {
  if (stalled(p, e)) return 0;
  for (int f = 0; f < EVENTS; f++) {
    if (!same_key(e, f) || now.seq[f] >= now.seq[e] || !visible(f) || has(also, f)) continue;
    if (PH(p, f) == NOT_HERE || PH(p, f) == FAILED || PH(p, f) == WRITING_FAILED || PH(p, f) == KEPT_FAILED) return 0;
  }
  return 1;
}

/* One worker and one settle at a time; more would only do the same with other keys. */
static int does(int p, int from, int to) {
  for (int e = 0; e < EVENTS; e++)
    if (PH(p, e) >= from && PH(p, e) <= to) return 1;
  return 0;
}

static int is_head(int p, int e) {
  for (int f = 0; f < EVENTS; f++) {
    if (f == e || !same_key(e, f)) continue;
    if (PH(p, f) == RUNNING || PH(p, f) == FAILED || PH(p, f) == WRITING_FAILED) return 0;
    if (PH(p, f) == QUEUED && now.seq[f] < now.seq[e]) return 0;
  }
  return 1;
}

static int is_remembered(int e) {
  for (int p = 0; p < PROCESSES; p++)
    if (PH(p, e) != NOT_HERE || has(now.seen[p] | now.held[p], e)) return 1;
  return 0;
}

/* Settled or rolled back, and in nobody's memory. */
static int is_over(int e) { return (now.st[e] == DONE || now.tx[e] == ROLLED_BACK) && !is_remembered(e); }

static int lane_matters(int l) {
  for (int e = 0; e < EVENTS; e++)
    if (lane_of[e] == l && !is_over(e)) return 1;
  return 0;
}

/* ------------------------------------------------------------------------------------------ what a read sees */

static int rows(int p) {
  int set = 0;
  for (int e = 0; e < EVENTS; e++)
    if (visible(e) && now.st[e] == PENDING && now.due[e] && has(readable(p), lane_of[e])) set |= 1 << e;
  return set;
}

static int retries(int p) {
  int set = 0;
  for (int e = 0; e < EVENTS; e++)
    if (visible(e) && now.st[e] == RETRY && has(readable(p), lane_of[e])) set |= 1 << e;
  return set;
}

static int with_token(int set) {
  for (int e = 0; e < EVENTS; e++)
    if (now.tok[e] == NO_TOKEN) set &= ~(1 << e);
  return set;
}

static int past_cursor(int p, int set) {
  int past = 0;
  for (int e = 0; e < EVENTS; e++)
    if (has(set, e) && now.seq[e] > now.cursor[p]) past |= 1 << e;
  return past;
}

/* Without a sweep a read has only what is past the cursor, and ends before its first row with a key. */
static int rows_of_read(int p, int sweep) {
  if (sweep) return rows(p);
  int fresh = past_cursor(p, rows(p)), set = 0;
  if (BUG == CURSOR_WITHOUT_SWEEP || BUG == KEYED_WITHOUT_SWEEP) return fresh;
  for (int e = 0; e < EVENTS; e++) {
    int keyed_before = 0;
    for (int f = 0; f < EVENTS; f++)
      if (has(fresh, f) && key_of[f] != 0 && now.seq[f] <= now.seq[e]) keyed_before = 1;
    if (has(fresh, e) && !keyed_before) set |= 1 << e;
  }
  return set;
}

/* ------------------------------------------------------------------------- what becomes of a read's answer */

/* A retry holds its key: what is behind one waits. */
static int behind(int e, int holders) {
  for (int h = 0; h < EVENTS; h++)
    if (has(holders, h) && h != e && same_key(e, h) && now.seq[h] < now.seq[e]) return 1;
  return 0;
}

/* A row that carried a token gets another one before it is sent, unless it was extended or settled in the meantime. */
static int takeable(int p, int e, int tokens) {
  if (!has(tokens, e) || BUG == TOKEN_NOT_REPLACED) return 1;
  return unfenced(p, now.id[p]) && visible(e) && now.due[e];
}

/* Of a read that answered with `seen` and `held`, those in `tokens` with a token: what may be queued now. */
static int admitted(int p, int seen, int held, int tokens) {
  int late = 0, sure = 0, unsure = 0, set = 0;
  /* Rows behind the cursor are fetched again, so they are as they are now. */
  for (int e = 0; e < EVENTS; e++)
    if (has(seen, e) && now.seq[e] <= now.cursor[p] && PH(p, e) == NOT_HERE && has(rows(p), e)) late |= 1 << e;
  for (int e = 0; e < EVENTS; e++)
    if (has(late, e) && !behind(e, retries(p))) {
      if (key_of[e] == 0 || covered(p, e, late)) sure |= 1 << e;
      else unsure |= 1 << e;
    }
  for (int e = 0; e < EVENTS; e++) {
    int fresh = has(past_cursor(p, seen), e) || has(held, e), doubt = 0;
    for (int f = 0; f < EVENTS; f++)
      if (has(unsure, f) && same_key(e, f)) doubt = 1;
    if (doubt || PH(p, e) != NOT_HERE || !has(readable(p), lane_of[e]) || !takeable(p, e, tokens)) continue;
    if (has(sure, e) || (fresh && !behind(e, held))) set |= 1 << e;
  }
  return set;
}

/* ------------------------------------------------------------------------------------ what must always be true */

static int in_use(int p, int e) { return PH(p, e) >= QUEUED && PH(p, e) <= WRITING_FAILED; }

/* The database would take an outcome of e from p. */
static int may_settle(int p, int e) {
  if (!in_use(p, e)) return 0;
  return RT(p, e) == 0 ? now.tok[e] == HOT_TOKEN : unfenced(p, RT(p, e));
}

static int has_lane(int p, int l) {
  if (has(now.own[p], l) && unfenced(p, now.id[p])) return 1;
  for (int e = 0; e < EVENTS; e++)
    if (lane_of[e] == l && RT(p, e) != 0 && may_settle(p, e)) return 1;
  return 0;
}

static const char *broken_property(void) {
  for (int l = 0; l < LANES; l++) {
    int owners = 0;
    for (int p = 0; p < PROCESSES; p++) owners += has_lane(p, l);
    if (owners > 1) return "one-owner";
  }
  for (int e = 0; e < EVENTS; e++) {
    int rights = 0;
    for (int p = 0; p < PROCESSES; p++) rights += unfinished(e) && may_settle(p, e);
    if (rights > 1) return "one-right";
    if (now.tried[e] && now.tx[e] != COMMITTED) return "only-committed";
    for (int f = 0; f < EVENTS; f++)
      if (now.tried[e] && has(now.before[e], f) && now.sends[f] == 0) return "order";
    if (now.clean && now.sends[e] > 1) return "no-duplicates";
    for (int p = 0; p < PROCESSES; p++)
      if (now.st[e] == DONE && PH(p, e) == RUNNING && RT(p, e) != 0 && valid(p, RT(p, e))) return "done-is-final";
  }
  if (now.stale) return "stale-changes-nothing";
  return 0;
}

static int all_settled(void) {
  for (int e = 0; e < EVENTS; e++)
    if (now.tx[e] != ROLLED_BACK && now.st[e] != DONE) return 0;
  return 1;
}
