local function class(methods)
  methods.__index = methods
  return methods
end

local floor = math.floor

local Square = class {
  area = function(self) return self.size * self.size end,
  outline = function(self) return 4 * self.size end,
  grow = function(self, by) self.size = self.size + by end,
}

local Oblong = class {
  area = function(self) return self.width * self.height end,
  outline = function(self) return 2 * (self.width + self.height) end,
  grow = function(self, by)
    self.width = self.width + by
    self.height = self.height + by
  end,
}

local Triangle = class {
  area = function(self) return 6 * self.size * self.size end,
  outline = function(self) return 12 * self.size end,
  grow = function(self, by) self.size = self.size + by end,
}

-- Sizes are not negative, so to round down is to round toward zero.
local Circle = class {
  area = function(self) return floor(355 * self.size * self.size / 113) end,
  outline = function(self) return floor(710 * self.size / 113) end,
  grow = function(self, by) self.size = self.size + by end,
}

local Frame = class {
  area = function(self) return self.outer:area() - self.inner:area() end,
  outline = function(self) return self.outer:outline() + self.inner:outline() end,
  grow = function(self, by)
    self.outer:grow(by)
    self.inner:grow(by)
  end,
}

local function new_shape(kind, size)
  if kind == 0 then return setmetatable({size = size}, Square) end
  if kind == 1 then return setmetatable({width = size, height = size + 3}, Oblong) end
  if kind == 2 then return setmetatable({size = size}, Triangle) end
  if kind == 3 then return setmetatable({size = size}, Circle) end
  return setmetatable({outer = new_shape(1, size + 2), inner = new_shape(0, size)}, Frame)
end

function run(n)
  local shapes = {}
  local seed = 1
  for i = 1, 1000 do
    seed = seed * 16807 % 2147483647
    shapes[i] = new_shape(seed % 5, seed % 11 + 1)
  end
  local sum = 0
  for round = 1, n do
    local by = round % 3 - 1
    for i = 1, #shapes do
      local s = shapes[i]
      s:grow(by)
      sum = sum + s:area() + s:outline()
    end
  end
  return sum
end
