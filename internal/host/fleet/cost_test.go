package fleet_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/internal/apitest/race"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/test/testserver"
)

// TestCostOfOpen checks the memory and the goroutines of open control planes without requests. It does not run in
// parallel with other tests, whose memory would be counted. ADR 39 has the measured values; the limits leave a margin.
func TestCostOfOpen(t *testing.T) {
	const (
		planes        = 20
		maxBytes      = 1 << 20
		maxGoroutines = 13
	)
	url, client := startHost(t)
	get := func(path string) int {
		t.Helper()
		response, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode
	}
	await := func(format string, number int) {
		t.Helper()
		testserver.Eventually(t, time.Minute, func() error {
			if code := get(fmt.Sprintf(format, number)); code != http.StatusOK {
				return fmt.Errorf("code %d", code)
			}
			return nil
		})
	}
	open := func(number int) {
		t.Helper()
		body := fmt.Sprintf(`{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":"p%d"}}`, number)
		response, err := client.Post(url+"/apis/mainstay.dev/v1/controlplanes", "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		await("/clusters/p%d/api/v1/namespaces/default", number)
		await("/clusters/p%d/api/v1/namespaces/kube-system/serviceaccounts/default", number) // of a controller
	}
	open(0) // the data that all control planes share
	bytesBefore, goroutinesBefore := use(t)
	for i := range planes {
		open(i + 1)
	}
	bytesAfter, goroutinesAfter := use(t)
	if each := (bytesAfter - bytesBefore) / planes; each > maxBytes && !race.Enabled {
		t.Errorf("an open control plane uses %d bytes, at most %d are expected", each, maxBytes)
	}
	if each := float64(goroutinesAfter-goroutinesBefore) / planes; each > maxGoroutines {
		t.Errorf("an open control plane has %.1f goroutines, at most %d are expected", each, maxGoroutines)
	}
}

// use returns the memory in use, in bytes, and the number of goroutines, when both are stable.
func use(t *testing.T) (memory int64, goroutines int) {
	t.Helper()
	last := -1
	testserver.Eventually(t, time.Minute, func() error {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		memory, goroutines = int64(m.HeapAlloc+m.StackInuse), runtime.NumGoroutine()
		if goroutines != last {
			last = goroutines
			return fmt.Errorf("%d goroutines are running", goroutines)
		}
		return nil
	})
	return memory, goroutines
}

// startHost starts a host, and returns its URL and a client of its administrator.
func startHost(t *testing.T) (url string, client *http.Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving := make(chan host.Serving, 1)
	config := host.Config{OnServing: func(s host.Serving) { serving <- s }}
	config.Listen.Listener, config.Storage.DataDir = listener, t.TempDir()
	h, err := host.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case s := <-serving:
		config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if client, err = rest.HTTPClientFor(config); err != nil {
			t.Fatal(err)
		}
		return s.URL, client
	case err := <-ended:
		ended <- nil
		t.Fatalf("the server ended: %v", err)
	}
	return "", nil
}
