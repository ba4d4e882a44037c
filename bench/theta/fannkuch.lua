local function flip(a, count)
  local low, high = 1, count
  while low < high do
    a[low], a[high] = a[high], a[low]
    low = low + 1
    high = high - 1
  end
end

local function flips(a)
  local count = 0
  while a[1] ~= 1 do
    flip(a, a[1])
    count = count + 1
  end
  return count
end

local function rotate(a, at)
  local first = a[1]
  for i = 1, at - 1 do a[i] = a[i + 1] end
  a[at] = first
end

function run(n)
  local permutation, turns, work = {}, {}, {}
  for i = 1, n do permutation[i], turns[i], work[i] = i, 0, i end
  local checksum, most, even = 0, 0, true
  while true do
    for i = 1, n do work[i] = permutation[i] end
    local count = flips(work)
    if count > most then most = count end
    if even then checksum = checksum + count else checksum = checksum - count end
    even = not even
    local at = 2
    while at <= n do
      rotate(permutation, at)
      turns[at] = turns[at] + 1
      if turns[at] < at then break end
      turns[at] = 0
      at = at + 1
    end
    if at > n then return checksum * 1000 + most end
  end
end
