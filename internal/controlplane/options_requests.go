package controlplane

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/flags"
)

// Defaults of RequestOptions, as in kube-apiserver.
const (
	DefaultRequestTimeout      = time.Minute
	DefaultMinRequestTimeout   = 30 * time.Minute
	DefaultMaxRequestsInFlight = 400
	DefaultMaxMutatingInFlight = 200
)

// RequestOptions configure limits and headers of requests.
type RequestOptions struct {
	// MaxInFlight and MaxMutatingInFlight are the maximum numbers of concurrent read and mutating requests; 0
	// selects 400 and 200; NoLimit disables a limit. Priority and fairness distributes their sum.
	MaxInFlight, MaxMutatingInFlight int
	// DisablePriorityAndFairness rejects requests above the two limits, instead of queueing them.
	DisablePriorityAndFairness bool
	// Timeout is the timeout of requests other than watches; 0 selects 60s.
	Timeout time.Duration
	// MinTimeout is the minimum duration of watches; 0 selects 30m.
	MinTimeout time.Duration
	// MaxConnectionBytesPerSecond is the maximum rate of each direction of an upgraded connection, such as an
	// exec or port-forward connection; 0 disables the limit.
	MaxConnectionBytesPerSecond int64
	// GoAwayChance is the probability that an HTTP/2 request is followed by a GOAWAY frame, at most
	// 0.02.
	GoAwayChance float64
	// CORSAllowedOrigins contains regular expressions. Browsers may use the API from origins that match one of
	// them.
	CORSAllowedOrigins []string
	// HSTSDirectives are the directives of the header Strict-Transport-Security; empty omits it.
	HSTSDirectives []string
}

// AddFlags defines the flags of the options.
func (o *RequestOptions) AddFlags(fs *pflag.FlagSet) {
	flags.LimitVar(fs, &o.MaxInFlight, "max-requests-inflight", DefaultMaxRequestsInFlight, "maximum number of concurrent read requests; 0 disables the limit, and both limits 0 disable flow control")
	flags.LimitVar(fs, &o.MaxMutatingInFlight, "max-mutating-requests-inflight", DefaultMaxMutatingInFlight, "maximum number of concurrent mutating requests; 0 disables the limit, and both limits 0 disable flow control")
	flags.EnabledVar(fs, &o.DisablePriorityAndFairness, "enable-priority-and-fairness", "distribute the sum of both limits among the flows of FlowSchemas and PriorityLevelConfigurations, instead of rejecting requests above the limits")
	fs.DurationVar(&o.Timeout, "request-timeout", DefaultRequestTimeout, "timeout of requests other than watches")
	flags.SecondsVar(fs, &o.MinTimeout, "min-request-timeout", DefaultMinRequestTimeout, "minimum duration of watches, in seconds; each watch ends after a random duration of one to two times this value")
	fs.Int64Var(&o.MaxConnectionBytesPerSecond, "max-connection-bytes-per-sec", 0, "maximum rate of each direction of an upgraded connection (exec, attach, port-forward, proxy), in bytes per second; 0 disables the limit")
	fs.Float64Var(&o.GoAwayChance, "goaway-chance", 0, "share of HTTP/2 requests after which the server sends GOAWAY, so that the client opens a new connection; at most 0.02")
	fs.StringSliceVar(&o.CORSAllowedOrigins, "cors-allowed-origins", nil, "regular expressions of the origins that may use the API from browsers (CORS), comma-separated, such as ^https://www\\.example\\.com$")
	fs.StringSliceVar(&o.HSTSDirectives, "strict-transport-security-directives", nil, "HSTS directives to send, comma-separated: max-age=SECONDS, includeSubDomains, preload")
}

func (o *RequestOptions) setDefaults() {
	setDefault(&o.MaxInFlight, DefaultMaxRequestsInFlight)
	setDefault(&o.MaxMutatingInFlight, DefaultMaxMutatingInFlight)
	setDefault(&o.Timeout, DefaultRequestTimeout)
	setDefault(&o.MinTimeout, DefaultMinRequestTimeout)
}

func (o *RequestOptions) check() error {
	errs := []error{
		checkNotNegative("request-timeout", o.Timeout),
		checkNotNegative("min-request-timeout", o.MinTimeout),
	}
	if o.MaxConnectionBytesPerSecond < 0 {
		errs = append(errs, fmt.Errorf("--max-connection-bytes-per-sec is %d; it cannot be negative", o.MaxConnectionBytesPerSecond))
	}
	if o.GoAwayChance < 0 || o.GoAwayChance > 0.02 {
		errs = append(errs, fmt.Errorf("--goaway-chance is %g; it must be between 0 and 0.02", o.GoAwayChance))
	}
	if err := filters.CheckCORS(o.CORSAllowedOrigins); err != nil {
		errs = append(errs, fmt.Errorf("--cors-allowed-origins: %w", err))
	}
	if err := filters.CheckHSTS(o.HSTSDirectives); err != nil {
		errs = append(errs, fmt.Errorf("--strict-transport-security-directives: %w", err))
	}
	if !o.DisablePriorityAndFairness && o.seats() == 0 {
		errs = append(errs, fmt.Errorf("--max-requests-inflight=%d and --max-mutating-requests-inflight=%d must add up to something positive, unless --enable-priority-and-fairness=false",
			max(o.MaxInFlight, 0), max(o.MaxMutatingInFlight, 0)))
	}
	return errors.Join(errs...)
}

// seats returns the maximum number of concurrent requests under priority and fairness.
func (o *RequestOptions) seats() int { return max(o.MaxInFlight, 0) + max(o.MaxMutatingInFlight, 0) }
