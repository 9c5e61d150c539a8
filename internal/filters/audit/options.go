package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Modes of a backend.
const (
	ModeBatch    = "batch"    // events are sent in batches, and requests do not wait
	ModeBlocking = "blocking" // requests wait for their events, and continue if an event cannot be recorded
	// ModeBlockingStrict rejects a request if its RequestReceived stage cannot be recorded.
	ModeBlockingStrict = "blocking-strict"
)

// Formats of the log.
const (
	FormatJSON   = "json"
	FormatLegacy = "legacy"
)

// Names of the backends, in metrics and flags.
const (
	nameLog     = "log"
	nameWebhook = "webhook"
)

// Options configures auditing, with one field per flag. Use NewOptions to get the defaults. Auditing is
// disabled if PolicyFile is empty or no backend is configured, so the zero value disables auditing.
type Options struct {
	PolicyFile string
	Log        LogOptions
	Webhook    WebhookOptions
}

// BackendOptions are the options that all backends have.
type BackendOptions struct {
	Mode     string
	Version  string
	Batch    BatchOptions // used only with ModeBatch
	Truncate TruncateOptions
}

// BatchOptions configures the batches of ModeBatch.
type BatchOptions struct {
	BufferSize     int           // maximum number of queued events; events beyond this number are dropped
	MaxSize        int           // maximum number of events per batch
	MaxWait        time.Duration // maximum time to wait for a full batch
	ThrottleEnable bool
	ThrottleQPS    float32 // batches per second
	ThrottleBurst  int
}

// TruncateOptions limits the size of events. The bodies of an oversized event are removed. If the
// event is still too large, it is dropped.
type TruncateOptions struct {
	Enabled                    bool
	MaxBatchSize, MaxEventSize int64 // bytes
}

// LogOptions configures the log backend.
type LogOptions struct {
	Path                        string // "-" is the standard output; "" disables the log
	Format                      string
	MaxAge, MaxBackups, MaxSize int // in days, files and MiB; 0 disables the limit
	Compress                    bool
	BackendOptions
}

// WebhookOptions configures the webhook backend.
type WebhookOptions struct {
	ConfigFile     string // path of a kubeconfig; "" disables the webhook
	InitialBackoff time.Duration
	BackendOptions
}

// NewOptions returns kube-apiserver's defaults. Auditing is disabled by default.
func NewOptions() Options {
	truncate := TruncateOptions{MaxBatchSize: 10 << 20, MaxEventSize: 100 << 10}
	return Options{
		Log: LogOptions{
			Format: FormatJSON, MaxAge: 366, MaxBackups: 100, MaxSize: 100,
			BackendOptions: BackendOptions{
				Mode: ModeBlocking, Version: APIVersion, Truncate: truncate,
				Batch: BatchOptions{BufferSize: 10000, MaxSize: 1},
			},
		},
		Webhook: WebhookOptions{
			InitialBackoff: 10 * time.Second,
			BackendOptions: BackendOptions{
				Mode: ModeBatch, Version: APIVersion, Truncate: truncate,
				Batch: BatchOptions{BufferSize: 10000, MaxSize: 400, MaxWait: 30 * time.Second, ThrottleEnable: true, ThrottleQPS: 10, ThrottleBurst: 15},
			},
		},
	}
}

// Modes returns the modes of a backend.
func Modes() []string { return []string{ModeBatch, ModeBlocking, ModeBlockingStrict} }

// Check validates the options of the enabled backends. It returns an error that joins all problems,
// most of them with kube-apiserver's messages. It does not access files.
func (o *Options) Check() error {
	var errs []error
	if log := &o.Log; log.Path != "" {
		errs = append(errs, log.check(nameLog))
		if log.Format != FormatJSON && log.Format != FormatLegacy {
			errs = append(errs, fmt.Errorf("invalid audit log format %s, allowed formats are %q", log.Format, FormatLegacy+","+FormatJSON))
		}
		for _, f := range []struct {
			flag  string
			value int
		}{{"maxage", log.MaxAge}, {"maxbackup", log.MaxBackups}, {"maxsize", log.MaxSize}} {
			if f.value < 0 {
				errs = append(errs, fmt.Errorf("--audit-log-%s %d can't be a negative number", f.flag, f.value))
			}
		}
	}
	if o.Webhook.ConfigFile != "" {
		errs = append(errs, o.Webhook.check(nameWebhook))
		if o.Webhook.InitialBackoff < 0 {
			errs = append(errs, fmt.Errorf("--audit-webhook-initial-backoff is %s; it cannot be negative", o.Webhook.InitialBackoff))
		}
	}
	return errors.Join(errs...)
}

func (o *BackendOptions) check(name string) error {
	var errs []error
	if !slices.Contains(Modes(), o.Mode) {
		errs = append(errs, fmt.Errorf("invalid audit %s mode %s, allowed modes are %q", name, o.Mode, strings.Join(Modes(), ",")))
	}
	if o.Mode == ModeBatch {
		errs = append(errs, o.Batch.check(name))
	}
	if o.Version != APIVersion {
		errs = append(errs, fmt.Errorf("invalid audit %s version %s: invalid group version, allowed versions are [%q]", name, o.Version, APIVersion))
	}
	return errors.Join(append(errs, o.Truncate.check(name))...)
}

func (o *BatchOptions) check(name string) error {
	switch {
	case o.BufferSize <= 0:
		return fmt.Errorf("invalid audit batch %s buffer size %d, must be a positive number", name, o.BufferSize)
	case o.MaxSize <= 0:
		return fmt.Errorf("invalid audit batch %s max batch size %d, must be a positive number", name, o.MaxSize)
	case o.ThrottleEnable && o.ThrottleQPS <= 0:
		return fmt.Errorf("invalid audit batch %s throttle QPS %g, must be a positive number", name, o.ThrottleQPS)
	case o.ThrottleEnable && o.ThrottleBurst <= 0:
		return fmt.Errorf("invalid audit batch %s throttle burst %d, must be a positive number", name, o.ThrottleBurst)
	}
	return nil
}

func (o *TruncateOptions) check(name string) error {
	switch {
	case o.MaxEventSize <= 0:
		return fmt.Errorf("invalid audit truncate %s max event size %d, must be a positive number", name, o.MaxEventSize)
	case o.MaxBatchSize < o.MaxEventSize:
		return fmt.Errorf("invalid audit truncate %s max batch size %d, must be greater than max event size (%d)", name, o.MaxBatchSize, o.MaxEventSize)
	}
	return nil
}
