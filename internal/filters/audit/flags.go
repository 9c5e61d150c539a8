package audit

import "github.com/spf13/pflag"

// AddFlags sets o to NewOptions and defines the flags that change its fields.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	*o = NewOptions()
	fs.StringVar(&o.PolicyFile, "audit-policy-file", "", "Policy of audit.k8s.io/v1: which parts of which requests are recorded (default: auditing is disabled)")
	o.Log.addFlags(fs)
	o.Webhook.addFlags(fs)
}

func (o *LogOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Path, "audit-log-path", "", "file for audit events, - for the standard output (default: no file)")
	fs.StringVar(&o.Format, "audit-log-format", o.Format, "json, or legacy: one line of text with some fields of the event")
	fs.IntVar(&o.MaxSize, "audit-log-maxsize", o.MaxSize, "size at which the file is rotated, in MiB; 0 disables rotation by size")
	fs.IntVar(&o.MaxBackups, "audit-log-maxbackup", o.MaxBackups, "maximum number of rotated files; 0 disables the limit")
	fs.IntVar(&o.MaxAge, "audit-log-maxage", o.MaxAge, "maximum age of rotated files, in days; 0 disables the limit")
	fs.BoolVar(&o.Compress, "audit-log-compress", false, "compress rotated files with gzip")
	o.BackendOptions.addFlags(fs, "audit-log")
}

func (o *WebhookOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ConfigFile, "audit-webhook-config-file", "", "kubeconfig of a webhook that receives audit events (default: no webhook)")
	fs.DurationVar(&o.InitialBackoff, "audit-webhook-initial-backoff", o.InitialBackoff, "delay before the first retry")
	fs.DurationVar(&o.InitialBackoff, "audit-webhook-batch-initial-backoff", o.InitialBackoff, "deprecated name of --audit-webhook-initial-backoff")
	fs.Lookup("audit-webhook-batch-initial-backoff").Hidden = true
	o.BackendOptions.addFlags(fs, "audit-webhook")
}

func (o *BackendOptions) addFlags(fs *pflag.FlagSet, prefix string) {
	fs.StringVar(&o.Mode, prefix+"-mode", o.Mode, "batch: events are buffered, and dropped if the buffer is full; blocking: each request waits for its events; blocking-strict: requests that cannot be recorded on arrival are also rejected")
	fs.StringVar(&o.Version, prefix+"-version", o.Version, "version of the events; audit.k8s.io/v1 is the only one")
	batch := &o.Batch
	fs.IntVar(&batch.BufferSize, prefix+"-batch-buffer-size", batch.BufferSize, "maximum number of buffered events")
	fs.IntVar(&batch.MaxSize, prefix+"-batch-max-size", batch.MaxSize, "maximum number of events in a batch")
	fs.DurationVar(&batch.MaxWait, prefix+"-batch-max-wait", batch.MaxWait, "maximum time to wait for a full batch")
	fs.BoolVar(&batch.ThrottleEnable, prefix+"-batch-throttle-enable", batch.ThrottleEnable, "limit the rate of batches")
	fs.Float32Var(&batch.ThrottleQPS, prefix+"-batch-throttle-qps", batch.ThrottleQPS, "maximum number of batches per second")
	fs.IntVar(&batch.ThrottleBurst, prefix+"-batch-throttle-burst", batch.ThrottleBurst, "maximum burst of batches")
	truncate := &o.Truncate
	fs.BoolVar(&truncate.Enabled, prefix+"-truncate-enabled", false, "remove the bodies of events that are too large, and drop events that are still too large")
	fs.Int64Var(&truncate.MaxEventSize, prefix+"-truncate-max-event-size", truncate.MaxEventSize, "maximum size of an event, in bytes")
	fs.Int64Var(&truncate.MaxBatchSize, prefix+"-truncate-max-batch-size", truncate.MaxBatchSize, "maximum size of a batch, in bytes")
}
