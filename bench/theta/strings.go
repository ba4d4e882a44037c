package main

import (
	"strconv"
	"strings"
)

func line(i int64) string {
	return "item " + strconv.FormatInt(i, 10) + " costs " + strconv.FormatInt(i*7, 10) + ".\n"
}

func run(n int64) int64 {
	characters, sevens, text := 0, int64(0), ""
	for i := int64(1); i <= n; i++ {
		one := line(i)
		if strings.HasPrefix(one, "item 7") {
			sevens++
		}
		text += one
		if i%100 == 0 {
			characters += len(text)
			text = ""
		}
	}
	return int64(characters+len(text))*1000000 + sevens
}
