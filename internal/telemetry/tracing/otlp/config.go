package otlp

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Config is a TracingConfiguration of apiserver.config.k8s.io. Its versions v1, v1beta1 and v1alpha1
// have the same fields.
type Config struct {
	metav1.TypeMeta `json:",inline"`
	// Endpoint is the gRPC target of the collector; "" selects localhost:4317. Connections do not use TLS.
	Endpoint string `json:"endpoint,omitempty"`
	// SamplingRatePerMillion is the number of requests to record out of a million requests that start a new
	// trace. A request that continues the trace of its client is recorded if the client recorded the trace.
	SamplingRatePerMillion int32 `json:"samplingRatePerMillion,omitempty"`
}

// maxSamplingRate is the sampling rate at which all requests are recorded.
const maxSamplingRate = 1_000_000

// ReadConfig reads a configuration file in YAML or JSON. Unknown fields are errors.
func ReadConfig(file string) (*Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the tracing configuration: %w", err)
	}
	c, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func parse(data []byte) (*Config, error) {
	c := &Config{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, err
	}
	version, isGroup := strings.CutPrefix(c.APIVersion, "apiserver.config.k8s.io/")
	if c.Kind != "TracingConfiguration" || !isGroup || version != "v1" && version != "v1beta1" && version != "v1alpha1" {
		return nil, fmt.Errorf("kind %q of %q is not supported; use TracingConfiguration of apiserver.config.k8s.io/v1", c.Kind, c.APIVersion)
	}
	return c, c.check()
}

// check returns an error for an invalid value. The rules are the same as in kube-apiserver.
func (c *Config) check() error {
	if c.SamplingRatePerMillion < 0 || c.SamplingRatePerMillion > maxSamplingRate {
		return fmt.Errorf("samplingRatePerMillion is %d; it must be between 0 and %d", c.SamplingRatePerMillion, maxSamplingRate)
	}
	if !strings.Contains(c.Endpoint, "//") {
		return nil // HOST:PORT
	}
	target, err := url.Parse(c.Endpoint)
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	switch target.Scheme {
	case "dns", "unix", "unix-abstract":
		return nil
	}
	return fmt.Errorf("endpoint is %q; it must be HOST:PORT, or begin with dns:, unix: or unix-abstract:", c.Endpoint)
}
