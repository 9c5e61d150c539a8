package host

import (
	"context"
	"sync"
)

// StatisticsPath serves recent values of the server's metrics, for charts in consoles. GET and HEAD require
// the verb get on statistics.mainstay.dev.
const StatisticsPath = "/mainstay/v1/statistics"

// startRecorder records metrics until ctx ends. The returned function stops the recorder earlier, and waits
// for the sample in progress. The components with metrics must stay open until this function returns.
func (h *Host) startRecorder(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { h.recorder.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
