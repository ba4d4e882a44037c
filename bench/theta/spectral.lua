local floor = math.floor

local function a(i, j)
  local both = i + j
  return 1.0 / (both * (both + 1) * 0.5 + i + 1)
end

local function multiply(n, v, product)
  for i = 0, n - 1 do
    local sum = 0.0
    for j = 0, n - 1 do sum = sum + a(i, j) * v[j + 1] end
    product[i + 1] = sum
  end
end

local function multiply_transposed(n, v, product)
  for i = 0, n - 1 do
    local sum = 0.0
    for j = 0, n - 1 do sum = sum + a(j, i) * v[j + 1] end
    product[i + 1] = sum
  end
end

function run(n)
  local u, v, w = {}, {}, {}
  for i = 1, n do u[i], v[i], w[i] = 1.0, 0.0, 0.0 end
  for _ = 1, 10 do
    multiply(n, u, w)
    multiply_transposed(n, w, v)
    multiply(n, v, w)
    multiply_transposed(n, w, u)
  end
  local uv, vv = 0.0, 0.0
  for i = 1, n do
    uv = uv + u[i] * v[i]
    vv = vv + v[i] * v[i]
  end
  return floor(math.sqrt(uv / vv) * 1000000000.0 + 0.5)
end
