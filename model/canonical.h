/*
 * States that differ only in what can never matter again, or in which of the processes is which, are one state. This
 * turns each state into the one that stands for all of them, which spares most of the work.
 */
#include <string.h>

#define PART (7 + IDS + 2 * EVENTS + 2 + LANES)
/* While a history is told: which process is at each place. */
static int name_of[PROCESSES] = {0, 1, 2};

/* Only the order of positions counts, and none of them once a delivery is settled and out of memory. */
static void renumber(void) {
  int at[PROCESSES] = {0}, next[EVENTS] = {0};
  for (int e = 0; e < EVENTS; e++)
    if (is_over(e)) now.seq[e] = 0;
  for (int e = 0; e < EVENTS; e++) {
    if (now.seq[e] == 0) continue;
    for (int f = 0; f < EVENTS; f++) next[e] += now.seq[f] != 0 && now.seq[f] <= now.seq[e];
    for (int p = 0; p < PROCESSES; p++) at[p] += now.seq[e] <= now.cursor[p];
  }
  for (int e = 0; e < EVENTS; e++) now.seq[e] = next[e];
  for (int p = 0; p < PROCESSES; p++) now.cursor[p] = now.own[p] == 0 ? 0 : at[p];
}

static int is_used(int p, int i) {
  if (i == now.id[p] && now.up[p]) return 1;
  for (int e = 0; e < EVENTS; e++)
    if (RT(p, e) == i) return 1;
  return unfenced(p, i);
}

/* Whose a lane is does not matter any more once everything in it is over. */
static void forget_lanes(void) {
  for (int l = 0; l < LANES; l++) {
    if (lane_matters(l)) continue;
    now.owner[l] = NOBODY;
    now.ownerId[l] = 0;
    for (int p = 0; p < PROCESSES; p++) now.own[p] &= ~(1 << l), now.leaving[p] &= ~(1 << l);
  }
}

/* Under a fenced id nothing is begun and nothing is written; only what was about to be sent still is. */
static void forget_fenced(int p) {
  for (int e = 0; e < EVENTS; e++) {
    if (RT(p, e) == 0 || unfenced(p, RT(p, e))) continue;
    if (PH(p, e) == QUEUED || ((PH(p, e) == SENT || PH(p, e) == FAILED) && BUG != NO_FENCE_ON_SETTLE))
      PH(p, e) = RT(p, e) = NOT_HERE;
  }
}

/* A fenced worker is as good as none once nothing is in flight under its id. */
static void forget_workers(void) {
  for (int p = 0; p < PROCESSES; p++) forget_fenced(p);
  for (int l = 0; l < LANES; l++)
    if (now.owner[l] != NOBODY && !unfenced(now.owner[l], now.ownerId[l])) now.owner[l] = NOBODY, now.ownerId[l] = 0;
  for (int p = 0; p < PROCESSES; p++)
    while (now.id[p] > 0 && !is_used(p, 1)) {
      for (int i = 1; i < IDS; i++) WK(p, i) = WK(p, i + 1);
      WK(p, IDS) = UNKNOWN;
      now.id[p]--;
      for (int e = 0; e < EVENTS; e++)
        if (RT(p, e) > 0) RT(p, e)--;
      for (int l = 0; l < LANES; l++)
        if (now.owner[l] == p) now.ownerId[l]--;
    }
}

/* What was accepted is no longer waited for; and after a fault a duplicate is as good as one. */
static void forget_history(void) {
  for (int e = 0; e < EVENTS; e++) {
    if (!now.clean && now.sends[e] > 1) now.sends[e] = 1;
    if (is_over(e)) now.tried[e] = now.sends[e] = now.tx[e] == COMMITTED;
    for (int f = 0; f < EVENTS; f++)
      if (now.sends[f] > 0) now.before[e] &= ~(1 << f);
  }
}

static void pack(int p, unsigned char *part) {
  int n = 0;
  part[n++] = now.up[p]; part[n++] = now.id[p]; part[n++] = now.own[p] | now.leaving[p] << 4;
  part[n++] = now.cursor[p]; part[n++] = now.reading[p]; part[n++] = now.seen[p] | now.held[p] << 4; part[n++] = now.marked[p];
  for (int i = 1; i <= IDS; i++) part[n++] = WK(p, i);
  for (int e = 0; e < EVENTS; e++) part[n++] = PH(p, e), part[n++] = RT(p, e);
  part[n] = part[n + 1] = 0;
  for (int e = 0; e < EVENTS; e++) {
    part[n] |= (now.txOf[e] == p) << e;
    part[n + 1] |= (now.offered[e] == p) << e;
  }
  n += 2;
  for (int l = 0; l < LANES; l++) part[n++] = now.owner[l] == p ? now.ownerId[l] : 0;
}

static void unpack(int p, const unsigned char *part) {
  int n = 0;
  now.up[p] = part[n++]; now.id[p] = part[n++]; now.own[p] = part[n] & 15; now.leaving[p] = part[n++] >> 4;
  now.cursor[p] = part[n++]; now.reading[p] = part[n++]; now.seen[p] = part[n] & 15; now.held[p] = part[n++] >> 4;
  now.marked[p] = part[n++];
  for (int i = 1; i <= IDS; i++) WK(p, i) = part[n++];
  for (int e = 0; e < EVENTS; e++) PH(p, e) = part[n++], RT(p, e) = part[n++];
  for (int e = 0; e < EVENTS; e++) {
    if (has(part[n], e)) now.txOf[e] = p;
    if (has(part[n + 1], e)) now.offered[e] = p;
  }
  n += 2;
  for (int l = 0; l < LANES; l++, n++)
    if (part[n]) now.owner[l] = p, now.ownerId[l] = part[n];
}

/* Processes are alike: they stand in the order of what is in them. */
static void sort_processes(void) {
  unsigned char parts[PROCESSES][PART], swap[PART];
  for (int p = 0; p < PROCESSES; p++) pack(p, parts[p]);
  int sorted = 1;
  for (int i = 1; i < PROCESSES; i++)
    for (int p = i; p > 0 && memcmp(parts[p - 1], parts[p], PART) < 0; p--) {
      memcpy(swap, parts[p], PART); memcpy(parts[p], parts[p - 1], PART); memcpy(parts[p - 1], swap, PART);
      int name = name_of[p]; name_of[p] = name_of[p - 1]; name_of[p - 1] = name;
      sorted = 0;
    }
  if (!sorted) for (int p = 0; p < PROCESSES; p++) unpack(p, parts[p]);
}

static void make_canonical(void) {
  forget_lanes();
  forget_workers();
  forget_history();
  renumber();
  sort_processes();
}
