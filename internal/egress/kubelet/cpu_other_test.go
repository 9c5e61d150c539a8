//go:build !unix

package kubelet_test

import (
	"testing"
	"time"
)

// cpu returns 0, because the CPU time is not available on this platform.
func cpu(*testing.B) time.Duration { return 0 }
