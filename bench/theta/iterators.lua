local function numbers(n)
  local i = 0
  return function()
    if i < n then
      i = i + 1
      return i
    end
  end
end

local function evens(n)
  local next_number = numbers(n)
  return function()
    for i in next_number do
      if i % 2 == 0 then return i end
    end
  end
end

local function tripled(n)
  local next_even = evens(n)
  return function()
    local i = next_even()
    return i and i * 3 + 1
  end
end

function run(n)
  local sum = 0
  for i in tripled(n) do sum = sum + i end
  return sum
end
