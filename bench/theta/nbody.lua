local sqrt = math.sqrt
local PI = 3.141592653589793
local SOLAR_MASS = 4.0 * PI * PI
local DAYS = 365.24

local function new_body(x, y, z, vx, vy, vz, mass)
  return {x = x, y = y, z = z, vx = vx * DAYS, vy = vy * DAYS, vz = vz * DAYS, mass = mass * SOLAR_MASS}
end

local function solar_system()
  return {
    new_body(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    new_body(4.84143144246472090, -1.16032004402742839, -0.103622044471123109, 0.00166007664274403694,
      0.00769901118419740425, -0.0000690460016972063023, 0.000954791938424326609),
    new_body(8.34336671824457987, 4.12479856412430479, -0.403523417114321381, -0.00276742510726411151,
      0.00499852801234917238, 0.0000230417297573763929, 0.000285885980666130812),
    new_body(12.8943695621391310, -15.1111514016986312, -0.223307578892655734, 0.00296460137564761618,
      0.00237847173959480950, -0.0000296589568540237556, 0.0000436624404335156298),
    new_body(15.3796971148509165, -25.9193146099879641, 0.179258772950371181, 0.00268067772490389322,
      0.00162824170038242295, -0.0000951592254519715870, 0.0000515138902046611451),
  }
end

local function balance(bodies)
  local px, py, pz = 0.0, 0.0, 0.0
  for _, b in ipairs(bodies) do
    px = px + b.vx * b.mass
    py = py + b.vy * b.mass
    pz = pz + b.vz * b.mass
  end
  local sun = bodies[1]
  sun.vx = 0.0 - px / SOLAR_MASS
  sun.vy = 0.0 - py / SOLAR_MASS
  sun.vz = 0.0 - pz / SOLAR_MASS
end

local function energy(bodies)
  local e = 0.0
  for i = 1, #bodies do
    local a = bodies[i]
    e = e + 0.5 * a.mass * (a.vx * a.vx + a.vy * a.vy + a.vz * a.vz)
    for j = i + 1, #bodies do
      local b = bodies[j]
      local dx, dy, dz = a.x - b.x, a.y - b.y, a.z - b.z
      e = e - a.mass * b.mass / sqrt(dx * dx + dy * dy + dz * dz)
    end
  end
  return e
end

local function advance(bodies, dt)
  local count = #bodies
  for i = 1, count do
    local a = bodies[i]
    for j = i + 1, count do
      local b = bodies[j]
      local dx, dy, dz = a.x - b.x, a.y - b.y, a.z - b.z
      local square = dx * dx + dy * dy + dz * dz
      local pull = dt / (square * sqrt(square))
      local am, bm = a.mass, b.mass
      a.vx = a.vx - dx * bm * pull
      a.vy = a.vy - dy * bm * pull
      a.vz = a.vz - dz * bm * pull
      b.vx = b.vx + dx * am * pull
      b.vy = b.vy + dy * am * pull
      b.vz = b.vz + dz * am * pull
    end
  end
  for i = 1, count do
    local b = bodies[i]
    b.x = b.x + dt * b.vx
    b.y = b.y + dt * b.vy
    b.z = b.z + dt * b.vz
  end
end

function run(n)
  local bodies = solar_system()
  balance(bodies)
  for _ = 1, n do advance(bodies, 0.01) end
  return -math.floor(-energy(bodies) * 1000000000.0 + 0.5)
end
