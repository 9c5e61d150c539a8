package host

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"mainstay.dev/mainstay/test/extension"
)

// TestAggregatedLeavesNoGoroutines checks that canceled requests, including requests to an unresponsive
// server, and deleted registrations do not leak goroutines. It is not parallel, because it examines all
// goroutines of the process.
func TestAggregatedLeavesNoGoroutines(t *testing.T) {
	o := newOrchard(t, Config{}, extension.Options{})
	o.register(t, nil)
	o.await(t, "Passed")
	o.SetHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			for _, path := range []string{"/apples", "/apples?watch=true"} {
				r, err := http.NewRequestWithContext(ctx, "GET", o.URL+applesPath+path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if response, err := o.admin.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			}
		})
	}
	clients.Wait()
	o.SetHandler(nil)
	if err := o.client.Resource(apiServicesGVR).Delete(t.Context(), applesService, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	left := ""
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		left = proxying()
		return left == "", nil
	})
	if err != nil {
		t.Errorf("remaining goroutines:\n%s", left)
	}
}

// proxying returns the stacks of the goroutines that forward requests to aggregated servers.
func proxying() string {
	buffer := make([]byte, 16<<20)
	all := strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n")
	var left []string
	for _, stack := range all {
		if strings.Contains(stack, "TestAggregatedLeavesNoGoroutines") {
			continue
		}
		if strings.Contains(stack, "aggregated.(*server)") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
