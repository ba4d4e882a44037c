//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package veneer

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// This file has the waits for the server: a spin for as long as that has paid lately, then a sleep
// on two words, by futex_waitv. The one is in the shared memory, and the server wakes it; the
// other one is private, and has the bits of the end of the stream. A sleeper first says so by its
// word, and then looks once more. The server first publishes, and then looks at the word. All of
// these are sequentially consistent, so that one of both sees the other.

const (
	sysFutexWaitv = 449
	futexWakeOp   = 1
	futexWaitOp   = 0
	futex32       = 2
	futexPrivate  = 128
	clockMono     = 1
)

// The times of waits.
const (
	shmSpinMax = 50 * time.Microsecond
	shmSpinMin = time.Microsecond
	// shmLoads is the number of looks at the ring between two at the clock.
	shmLoads = 32
	// shmProbeEvery is the number of short sleeps of which one is preceded by a spin of full length.
	shmProbeEvery = 64
	// shmSleepMax is the longest sleep where the kernel has no futex_waitv.
	shmSleepMax = 20 * time.Millisecond
)

// shmSpin is the time to spin before a sleep. It learns: twice as long when spinning paid, an
// eighth less when it did not.
type shmSpin struct {
	budget, most time.Duration
	shortSleeps  int
}

// hasManyCores returns true if the server can run while this side spins.
var hasManyCores = sync.OnceValue(func() bool {
	// A list of ranges, as in 0-3,6; one core is a single number.
	online, _ := os.ReadFile("/sys/devices/system/cpu/online")
	return runtime.NumCPU() > 1 || strings.ContainsAny(string(online), "-,")
})

func newShmSpin() shmSpin {
	if !hasManyCores() {
		return shmSpin{}
	}
	return shmSpin{budget: shmSpinMax, most: shmSpinMax}
}

func (s *shmSpin) learnPaid() { s.budget = min(2*s.budget, s.most) }

func (s *shmSpin) learnSlept(waited time.Duration) {
	s.budget = min(max(s.budget-s.budget/8, shmSpinMin), s.most)
	if waited < s.most {
		s.shortSleeps++
		if s.shortSleeps%shmProbeEvery == 0 {
			s.budget = s.most
		}
	}
}

// shmEnd is an end of a ring. It is ready if it may have what it waits for: bytes, or room.
type shmEnd interface{ isReady() bool }

// wait waits until an end may be ready, a bit of the attention is set, or the deadline is past:
// then it returns false.
func (c *shmConn) wait(
	spin *shmSpin, sleeps *atomic.Uint32, deadline time.Time, end shmEnd,
) bool {
	if spin.most > 0 {
		for started := time.Now(); ; {
			for range shmLoads {
				if end.isReady() {
					if spin.budget < spin.most {
						spin.learnPaid()
					}
					return true
				}
			}
			if time.Since(started) >= spin.budget {
				break
			}
		}
	}
	started := time.Now()
	isInTime := c.sleep(sleeps, deadline, end)
	spin.learnSlept(time.Since(started))
	return isInTime
}

func (c *shmConn) sleep(sleeps *atomic.Uint32, deadline time.Time, end shmEnd) bool {
	for {
		sleeps.Store(1)
		isReady, isLate := end.isReady() || c.attention.Load() != 0, isPast(deadline)
		if isReady || isLate {
			sleeps.Store(0)
			return isReady
		}
		futexSleep(sleeps, c.attention, deadline)
	}
}

// futexWaiter is a word on which futex_waitv sleeps, as the kernel has it.
type futexWaiter struct {
	value   uint64
	address uint64
	flags   uint32
	_       uint32
}

// clockBase is one moment in the time of Go and in that of the kernel, which run alike.
var clockBase = sync.OnceValue(func() (base struct {
	at   time.Time
	mono syscall.Timespec
}) {
	base.at = time.Now()
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMono,
		uintptr(unsafe.Pointer(&base.mono)), 0)
	return base
})

var waitvIsMissing atomic.Bool

// futexSleep sleeps while a shared word is 1 and a private one 0, up to the deadline. It may
// return early.
func futexSleep(shared, private *atomic.Uint32, deadline time.Time) {
	if !waitvIsMissing.Load() {
		waiters := [2]futexWaiter{
			{value: 1, address: uint64(uintptr(unsafe.Pointer(shared))), flags: futex32},
			{
				address: uint64(uintptr(unsafe.Pointer(private))),
				flags:   futex32 | futexPrivate,
			},
		}
		var until *syscall.Timespec
		if !deadline.IsZero() {
			base := clockBase()
			// Never before the deadline, so that it is past afterwards.
			at := syscall.NsecToTimespec(base.mono.Nano() + int64(deadline.Sub(base.at)) + 1000)
			until = &at
		}
		_, _, wrong := syscall.Syscall6(sysFutexWaitv, uintptr(unsafe.Pointer(&waiters)), 2, 0,
			uintptr(unsafe.Pointer(until)), clockMono, 0)
		runtime.KeepAlive(private)
		if wrong != syscall.ENOSYS && wrong != syscall.EPERM {
			return
		}
		waitvIsMissing.Store(true)
	}
	left := shmSleepMax
	if !deadline.IsZero() {
		left = min(left, max(time.Until(deadline), 0))
	}
	timeout := syscall.NsecToTimespec(int64(left))
	_, _, _ = syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(shared)), futexWaitOp, 1,
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
}

// futexWake wakes a sleeper on a word, which is shared or, by the flag, private.
func futexWake(word *atomic.Uint32, flag uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakeOp|flag, 1)
}
