package main

func stays(cx, cy float64) bool {
	x, y := 0.0, 0.0
	for range 50 {
		xx, yy := x*x, y*y
		if xx+yy > 4.0 {
			return false
		}
		y = 2.0*x*y + cy
		x = xx - yy + cx
	}
	return true
}

func run(n int64) int64 {
	step := 2.0 / float64(n)
	inside := int64(0)
	for row := range n {
		cy := float64(row)*step - 1.0
		for column := range n {
			if stays(float64(column)*step-1.5, cy) {
				inside++
			}
		}
	}
	return inside
}
