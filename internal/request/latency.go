package request

import (
	"context"
	"iter"
	"sync/atomic"
	"time"
)

// Stage is a part of the processing of a request whose duration is measured.
type Stage int

// The stages, named like the audit annotations of kube-apiserver (see Latencies). The last three are measured
// for audited requests only.
const (
	StageAuthentication Stage = iota
	StageAuthorization
	// StageQueueWait is the wait in a queue of flow control.
	StageQueueWait
	StageMutatingWebhooks
	// StageValidatingWebhooks counts webhooks that are called concurrently once.
	StageValidatingWebhooks
	// StageStorage contains reads that the watch cache does not serve, and writes.
	StageStorage
	// StageSerialize converts and encodes the objects of the response.
	StageSerialize
	StageResponseWrite
	stages
)

//nolint:gochecknoglobals // constant
var stageNames = [stages]string{
	StageAuthentication: "authentication", StageAuthorization: "authorization", StageQueueWait: "apf-queue-wait",
	StageMutatingWebhooks: "mutating-webhook", StageValidatingWebhooks: "validating-webhook", StageStorage: "etcd",
	StageSerialize: "serialize-response-object", StageResponseWrite: "response-write",
}

// latencies contains the duration of each stage, in nanoseconds. A handler can add a duration after its request
// has timed out and filters read the latencies.
type latencies [stages]atomic.Int64

// AddLatency adds to the duration of a stage. It has no effect outside a request. It is safe for concurrent use.
func AddLatency(ctx context.Context, stage Stage, d time.Duration) {
	if s := scopeFrom(ctx); s != nil {
		s.latencies[stage].Add(int64(d))
	}
}

// MeasureLatency measures a stage of an audited request until the returned function is called, and adds the time
// to the duration of the stage. It does nothing for other requests.
func MeasureLatency(ctx context.Context, stage Stage) (end func()) {
	if AuditFrom(ctx) == nil {
		return func() {}
	}
	began := time.Now()
	return func() { AddLatency(ctx, stage, time.Since(began)) }
}

// Latency returns the duration of some stages; 0 outside a request.
func Latency(ctx context.Context, of ...Stage) (sum time.Duration) {
	s := scopeFrom(ctx)
	if s == nil {
		return 0
	}
	for _, stage := range of {
		sum += time.Duration(s.latencies[stage].Load())
	}
	return sum
}

// Latencies iterates over the stages that took time, with the names that kube-apiserver uses in the audit
// annotations apiserver.latency.k8s.io/NAME.
func Latencies(ctx context.Context) iter.Seq2[string, time.Duration] {
	return func(yield func(string, time.Duration) bool) {
		for stage, name := range stageNames {
			if took := Latency(ctx, Stage(stage)); took > 0 && !yield(name, took) {
				return
			}
		}
	}
}
