#include "bench.h"
#include "ints.h"

// Open addressing, linear probing, at most half full; what is removed is filled up from behind.
typedef struct {
  int64_t key, value;
} Entry;

typedef struct {
  uint64_t mask;
  int64_t length;
  Entry *entries;
  bool *used;
} Map;

static uint64_t hash(int64_t key) {
  uint64_t h = (uint64_t)key * 0x9E3779B97F4A7C15u;
  return h ^ h >> 32;
}

static Map map(uint64_t room) {
  Map m = {room - 1, 0, allocate(room * sizeof(Entry)), calloc(room, sizeof(bool))};
  if (!m.used) fail("out of memory");
  return m;
}

static void free_map(Map *m) {
  free(m->entries);
  free(m->used);
}

// Where the key is, or where it would go.
static uint64_t place(const Map *m, int64_t key) {
  uint64_t i = hash(key) & m->mask;
  while (m->used[i] && m->entries[i].key != key) i = (i + 1) & m->mask;
  return i;
}

static void store(Map *m, int64_t key, int64_t value) {
  uint64_t i = place(m, key);
  if (!m->used[i] && 2 * (uint64_t)m->length > m->mask) {
    Map wider = map(2 * (m->mask + 1));
    for (uint64_t j = 0; j <= m->mask; j++) {
      if (m->used[j]) store(&wider, m->entries[j].key, m->entries[j].value);
    }
    free_map(m);
    *m = wider;
    i = place(m, key);
  }
  m->length += !m->used[i];
  m->used[i] = true;
  m->entries[i] = (Entry){key, value};
}

static bool contains(const Map *m, int64_t key) { return m->used[place(m, key)]; }

static int64_t fetch(const Map *m, int64_t key) {
  uint64_t i = place(m, key);
  if (!m->used[i]) fail("not found");
  return m->entries[i].value;
}

static void remove_key(Map *m, int64_t key) {
  uint64_t gap = place(m, key);
  if (!m->used[gap]) fail("not found");
  for (uint64_t i = (gap + 1) & m->mask; m->used[i]; i = (i + 1) & m->mask) {
    uint64_t home = hash(m->entries[i].key) & m->mask;
    if (((i - home) & m->mask) >= ((i - gap) & m->mask)) {
      m->entries[gap] = m->entries[i];
      gap = i;
    }
  }
  m->used[gap] = false;
  m->length--;
}

static int64_t run(int64_t n) {
  Ints keys = ints(n);
  int64_t key = 1;
  for (int64_t i = 0; i < n; i++) {
    key = mul(key, 16807) % 2147483647;
    *item(keys, i) = key;
  }
  Map places = map(16);
  for (int64_t i = 0; i < n; i++) store(&places, *item(keys, i), i + 1);
  int64_t sum = 0;
  for (int64_t i = 0; i < n; i++) sum = add(sum, fetch(&places, *item(keys, i)));
  for (int64_t i = 0; i < n; i++) {
    if (contains(&places, add(*item(keys, i), 2147483647))) sum = add(sum, 1);
  }
  for (int64_t i = 0; i < n; i += 2) remove_key(&places, *item(keys, i));
  for (int64_t i = 0; i < n; i++) {
    if (contains(&places, *item(keys, i))) sum = add(sum, i + 1);
  }
  sum = add(sum, places.length);
  free_map(&places);
  free(keys.at);
  return sum;
}
