local function stays(cx, cy)
  local x, y = 0.0, 0.0
  for _ = 1, 50 do
    local xx, yy = x * x, y * y
    if xx + yy > 4.0 then return false end
    y = 2.0 * x * y + cy
    x = xx - yy + cx
  end
  return true
end

function run(n)
  local step = 2.0 / n
  local inside = 0
  for row = 0, n - 1 do
    local cy = row * step - 1.0
    for column = 0, n - 1 do
      if stays(column * step - 1.5, cy) then inside = inside + 1 end
    end
  end
  return inside
end
