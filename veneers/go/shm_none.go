//go:build !linux || !(amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package veneer

import (
	"context"
	"errors"
)

// hasShm is true where this library has shared memory.
const hasShm = false

func dialShm(context.Context, string) (stream, error) {
	return nil, errors.New("there is no shared memory on this system: connect to unix:///path")
}
