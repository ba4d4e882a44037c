#include "bench.h"

#define PI 3.141592653589793
#define SOLAR_MASS (4.0 * PI * PI)
#define DAYS 365.24

typedef struct {
  double x, y, z, vx, vy, vz, mass;
} Body;

// Bodies are objects of their own, as in the other languages.
typedef struct {
  int64_t length;
  Body **at;
} Bodies;

static inline Body *item(Bodies a, int64_t i) {
  CHECK_BOUNDS((uint64_t)i < (uint64_t)a.length);
  return a.at[i];
}

static Body *new_body(double x, double y, double z, double vx, double vy, double vz, double mass) {
  Body *b = allocate(sizeof(Body));
  *b = (Body){x, y, z, vx * DAYS, vy * DAYS, vz * DAYS, mass * SOLAR_MASS};
  return b;
}

static Bodies solar_system(void) {
  Bodies s = {5, allocate(5 * sizeof(Body *))};
  s.at[0] = new_body(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0);
  s.at[1] = new_body(4.84143144246472090, -1.16032004402742839, -0.103622044471123109, 0.00166007664274403694,
                     0.00769901118419740425, -0.0000690460016972063023, 0.000954791938424326609);
  s.at[2] = new_body(8.34336671824457987, 4.12479856412430479, -0.403523417114321381, -0.00276742510726411151,
                     0.00499852801234917238, 0.0000230417297573763929, 0.000285885980666130812);
  s.at[3] = new_body(12.8943695621391310, -15.1111514016986312, -0.223307578892655734, 0.00296460137564761618,
                     0.00237847173959480950, -0.0000296589568540237556, 0.0000436624404335156298);
  s.at[4] = new_body(15.3796971148509165, -25.9193146099879641, 0.179258772950371181, 0.00268067772490389322,
                     0.00162824170038242295, -0.0000951592254519715870, 0.0000515138902046611451);
  return s;
}

static void balance(Bodies bodies) {
  double px = 0.0, py = 0.0, pz = 0.0;
  for (int64_t i = 0; i < bodies.length; i++) {
    Body *b = item(bodies, i);
    px += b->vx * b->mass;
    py += b->vy * b->mass;
    pz += b->vz * b->mass;
  }
  Body *sun = item(bodies, 0);
  sun->vx = 0.0 - px / SOLAR_MASS;
  sun->vy = 0.0 - py / SOLAR_MASS;
  sun->vz = 0.0 - pz / SOLAR_MASS;
}

static double energy(Bodies bodies) {
  double e = 0.0;
  for (int64_t i = 0; i < bodies.length; i++) {
    Body *a = item(bodies, i);
    e += 0.5 * a->mass * (a->vx * a->vx + a->vy * a->vy + a->vz * a->vz);
    for (int64_t j = i + 1; j < bodies.length; j++) {
      Body *b = item(bodies, j);
      double dx = a->x - b->x, dy = a->y - b->y, dz = a->z - b->z;
      e -= a->mass * b->mass / sqrt(dx * dx + dy * dy + dz * dz);
    }
  }
  return e;
}

static void advance(Bodies bodies, double dt) {
  for (int64_t i = 0; i < bodies.length; i++) {
    Body *a = item(bodies, i);
    for (int64_t j = i + 1; j < bodies.length; j++) {
      Body *b = item(bodies, j);
      double dx = a->x - b->x, dy = a->y - b->y, dz = a->z - b->z;
      double square = dx * dx + dy * dy + dz * dz;
      double pull = dt / (square * sqrt(square));
      a->vx -= dx * b->mass * pull;
      a->vy -= dy * b->mass * pull;
      a->vz -= dz * b->mass * pull;
      b->vx += dx * a->mass * pull;
      b->vy += dy * a->mass * pull;
      b->vz += dz * a->mass * pull;
    }
  }
  for (int64_t i = 0; i < bodies.length; i++) {
    Body *b = item(bodies, i);
    b->x += dt * b->vx;
    b->y += dt * b->vy;
    b->z += dt * b->vz;
  }
}

static int64_t run(int64_t n) {
  Bodies bodies = solar_system();
  balance(bodies);
  for (int64_t i = 0; i < n; i++) advance(bodies, 0.01);
  double e = energy(bodies);
  for (int64_t i = 0; i < bodies.length; i++) free(bodies.at[i]);
  free(bodies.at);
  return llround(e * 1000000000.0);
}
