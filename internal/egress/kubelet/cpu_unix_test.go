//go:build unix

package kubelet_test

import (
	"syscall"
	"testing"
	"time"
)

// cpu returns the user and system CPU time of this process.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
