package yield

import (
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestToNewRequests checks that a request in the global queue runs before a chain of requests each of which makes the
// next one runnable.
func TestToNewRequests(t *testing.T) {
	t.Parallel()
	if !enabled {
		t.Skip("the build tag noyield disables the package")
	}
	if runtime.GOMAXPROCS(0) > 1 {
		one := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestToNewRequests$")
		one.Env = append(os.Environ(), "GOMAXPROCS=1")
		if output, err := one.CombinedOutput(); err != nil {
			t.Errorf("with one processor: %v\n%s", err, output)
		}
		return
	}
	const length = 50 // less than the number of steps after which the scheduler checks the global queue
	links := make([]chan struct{}, length+1)
	for i := range links {
		links[i] = make(chan struct{})
	}
	var ended atomic.Int32
	for i := range length {
		go func() {
			<-links[i]
			ToNewRequests()
			ended.Add(1)
			close(links[i+1])
		}()
	}
	runtime.Gosched() // until all wait
	close(links[0])
	runtime.Gosched() // to the global queue
	if n := ended.Load(); n > 1 {
		t.Errorf("%d of %d requests of the chain ended before the other request ran", n, length)
	}
	<-links[length]
}
