package main

import "math"

const (
	solarMass = 4.0 * 3.141592653589793 * 3.141592653589793
	days      = 365.24
)

type body struct {
	x, y, z, vx, vy, vz, mass float64
}

func newBody(x, y, z, vx, vy, vz, mass float64) *body {
	return &body{x, y, z, vx * days, vy * days, vz * days, mass * solarMass}
}

func solarSystem() []*body {
	return []*body{
		newBody(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
		newBody(4.84143144246472090, -1.16032004402742839, -0.103622044471123109, 0.00166007664274403694,
			0.00769901118419740425, -0.0000690460016972063023, 0.000954791938424326609),
		newBody(8.34336671824457987, 4.12479856412430479, -0.403523417114321381, -0.00276742510726411151,
			0.00499852801234917238, 0.0000230417297573763929, 0.000285885980666130812),
		newBody(12.8943695621391310, -15.1111514016986312, -0.223307578892655734, 0.00296460137564761618,
			0.00237847173959480950, -0.0000296589568540237556, 0.0000436624404335156298),
		newBody(15.3796971148509165, -25.9193146099879641, 0.179258772950371181, 0.00268067772490389322,
			0.00162824170038242295, -0.0000951592254519715870, 0.0000515138902046611451),
	}
}

func balance(bodies []*body) {
	var px, py, pz float64
	for _, b := range bodies {
		px += b.vx * b.mass
		py += b.vy * b.mass
		pz += b.vz * b.mass
	}
	sun := bodies[0]
	sun.vx = 0.0 - px/solarMass
	sun.vy = 0.0 - py/solarMass
	sun.vz = 0.0 - pz/solarMass
}

func energy(bodies []*body) float64 {
	e := 0.0
	for i, a := range bodies {
		e += 0.5 * a.mass * (a.vx*a.vx + a.vy*a.vy + a.vz*a.vz)
		for _, b := range bodies[i+1:] {
			dx, dy, dz := a.x-b.x, a.y-b.y, a.z-b.z
			e -= a.mass * b.mass / math.Sqrt(dx*dx+dy*dy+dz*dz)
		}
	}
	return e
}

func advance(bodies []*body, dt float64) {
	for i, a := range bodies {
		for _, b := range bodies[i+1:] {
			dx, dy, dz := a.x-b.x, a.y-b.y, a.z-b.z
			square := dx*dx + dy*dy + dz*dz
			pull := dt / (square * math.Sqrt(square))
			a.vx -= dx * b.mass * pull
			a.vy -= dy * b.mass * pull
			a.vz -= dz * b.mass * pull
			b.vx += dx * a.mass * pull
			b.vy += dy * a.mass * pull
			b.vz += dz * a.mass * pull
		}
	}
	for _, b := range bodies {
		b.x += dt * b.vx
		b.y += dt * b.vy
		b.z += dt * b.vz
	}
}

func run(n int64) int64 {
	bodies := solarSystem()
	balance(bodies)
	for i := int64(0); i < n; i++ {
		advance(bodies, 0.01)
	}
	return int64(math.Round(energy(bodies) * 1000000000.0))
}
