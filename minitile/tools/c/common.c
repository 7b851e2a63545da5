/* Whole numbers that never wrap around: a result beyond 64 bits raises `*big`, and is 0. Division floors. */

static MT_MAYBE int64_t mt_add(int64_t x, int64_t y, int *big) {
  if (y > 0 ? x > INT64_MAX - y : x < INT64_MIN - y) return *big = 1, 0;
  return x + y;
}
static MT_MAYBE int64_t mt_sub(int64_t x, int64_t y, int *big) {
  if (y < 0 ? x > INT64_MAX + y : x < INT64_MIN + y) return *big = 1, 0;
  return x - y;
}
static MT_MAYBE int64_t mt_mul(int64_t x, int64_t y, int *big) {
  if (x == 0 || y == 0) return 0;
  if (x > 0 ? (y > 0 ? x > INT64_MAX / y : y < INT64_MIN / x) : (y > 0 ? x < INT64_MIN / y : y < INT64_MAX / x))
    return *big = 1, 0;
  return x * y;
}
static MT_MAYBE int64_t mt_floordiv(int64_t x, int64_t y, int *big) {
  if (y == 0 || (y == -1 && x == INT64_MIN)) return *big = 1, 0;
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
static MT_MAYBE int64_t mt_mod(int64_t x, int64_t y, int *big) {
  if (y == 0) return *big = 1, 0;
  if (y == -1) return 0;
  return x % y + ((x % y != 0 && (x < 0) != (y < 0)) ? y : 0);
}
static MT_MAYBE int64_t mt_ceildiv(int64_t x, int64_t y, int *big) {
  return mt_sub(0, mt_floordiv(mt_sub(0, x, big), y, big), big);
}
static MT_MAYBE int64_t mt_min(int64_t x, int64_t y) { return x < y ? x : y; }
static MT_MAYBE int64_t mt_max(int64_t x, int64_t y) { return x > y ? x : y; }
static MT_MAYBE int64_t mt_gcd(int64_t x, int64_t y) {
  uint64_t a = x < 0 ? 0 - (uint64_t)x : (uint64_t)x, b = y < 0 ? 0 - (uint64_t)y : (uint64_t)y;
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return (int64_t)a;
}
static MT_MAYBE int64_t mt_or(int64_t x, int64_t y) { return x ? x : y; }

/* What went wrong last in this thread. */
static MT_THREAD char mt_text[2048];

static int mt_fail(int status, const char *form, ...) {
  va_list words;
  va_start(words, form);
  vsnprintf(mt_text, sizeof mt_text, form, words);
  va_end(words);
  return status;
}

/* Where an array lies: from `begin` to `end`, in bytes; strides in bytes and extents of the `count` dimensions that have
 * more than one element. */
typedef struct {
  int64_t begin, end, element, stride[16], extent[16];
  int count, folded;
} mt_lies;

static MT_MAYBE mt_lies mt_where(const void *at, int64_t element, int rank, const int64_t *shape, const int64_t *strides,
                                 int *big) {
  mt_lies lies;
  int64_t low = 0, high = element;
  int i, empty = 0;
  lies.element = element;
  lies.count = lies.folded = 0;
  for (i = 0; i < rank; i++) {
    int64_t step = mt_mul(strides[i], element, big), reach = mt_mul(step, mt_sub(shape[i], 1, big), big);
    empty |= shape[i] == 0;
    if (shape[i] < 2) continue;
    lies.folded |= step == 0;
    lies.stride[lies.count] = step;
    lies.extent[lies.count++] = shape[i];
    low = mt_add(low, mt_min(0, reach), big);
    high = mt_add(high, mt_max(0, reach), big);
  }
  lies.begin = mt_add((int64_t)(uintptr_t)at, empty ? 0 : low, big);
  lies.end = empty ? lies.begin : mt_add((int64_t)(uintptr_t)at, high, big);
  if (empty) lies.count = lies.folded = 0;
  return lies;
}

static int64_t mt_width(const mt_lies *lies, int64_t modulus, int *big) {
  int64_t width = lies->element;
  int i;
  for (i = 0; i < lies->count; i++)
    if (lies->stride[i] % modulus) {
      int64_t step = lies->stride[i] < 0 ? -lies->stride[i] : lies->stride[i];
      width = mt_add(width, mt_mul(step, lies->extent[i] - 1, big), big);
    }
  return width;
}

/* Whether two arrays may have a byte in common: their spans have, and modulo none of their strides they are in different
 * places. */
static MT_MAYBE int mt_overlap(const mt_lies *a, const mt_lies *b, int *big) {
  int i;
  if (a->begin >= a->end || b->begin >= b->end || a->begin >= b->end || b->begin >= a->end) return 0;
  for (i = 0; i < a->count + b->count; i++) {
    int64_t modulus = i < a->count ? a->stride[i] : b->stride[i - a->count], distance;
    if (modulus == 0) continue;
    if (modulus < 0) modulus = -modulus;
    distance = mt_mod(b->begin - a->begin, modulus, big);
    if (distance >= mt_width(a, modulus, big) && modulus - distance >= mt_width(b, modulus, big)) return 0;
  }
  return 1;
}

/* A mutex around what is loaded: the first launch in a context holds it while the driver loads the code, which may take
 * seconds; others for a look at a short table. */
#if defined(_WIN32)
static void *mt_mutex; /* an SRWLOCK, whose initial value is zero */
MT_C __declspec(dllimport) void __stdcall AcquireSRWLockExclusive(void **lock);
MT_C __declspec(dllimport) void __stdcall ReleaseSRWLockExclusive(void **lock);
static void mt_lock(void) { AcquireSRWLockExclusive(&mt_mutex); }
static void mt_unlock(void) { ReleaseSRWLockExclusive(&mt_mutex); }
#else
static pthread_mutex_t mt_mutex = PTHREAD_MUTEX_INITIALIZER;
static void mt_lock(void) { pthread_mutex_lock(&mt_mutex); }
static void mt_unlock(void) { pthread_mutex_unlock(&mt_mutex); }
#endif
