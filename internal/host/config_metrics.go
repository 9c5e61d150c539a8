package host

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/telemetry"
)

// MetricsConfig selects the metrics that /metrics serves.
type MetricsConfig struct {
	// Disabled are the names of metrics that are not served.
	Disabled []string
	// AllowedLabels are the allowed values of labels, as VALUE,VALUE by METRIC,LABEL; see
	// telemetry.MetricFilter.
	AllowedLabels map[string]string
	// AllowedLabelsFile is a YAML file with the same content; AllowedLabels takes precedence for equal
	// keys. "" disables it.
	AllowedLabelsFile string
}

// AddFlags defines the flags of the config.
func (c *MetricsConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.Disabled, "disabled-metrics", nil, "names of metrics that /metrics does not serve, comma-separated")
	fs.StringToStringVar(&c.AllowedLabels, "allow-metric-labels", nil, "allowed values of a label of a metric, as METRIC,LABEL='VALUE,VALUE'; other values are served as unexpected. May be repeated")
	fs.StringVar(&c.AllowedLabelsFile, "allow-metric-labels-manifest", "", "YAML file with the content of --allow-metric-labels, which takes precedence")
}

// filter reads AllowedLabelsFile and returns the filter of metrics.
func (c *MetricsConfig) filter() (*telemetry.MetricFilter, error) {
	values := map[string]string{}
	if c.AllowedLabelsFile != "" {
		content, err := os.ReadFile(c.AllowedLabelsFile)
		if err == nil {
			err = yaml.UnmarshalStrict(content, &values)
		}
		if err != nil {
			return nil, fmt.Errorf("--allow-metric-labels-manifest=%s: %w", c.AllowedLabelsFile, err)
		}
	}
	fromFile, err := telemetry.ParseAllowedLabels(values)
	if err != nil {
		return nil, fmt.Errorf("--allow-metric-labels-manifest=%s: %w", c.AllowedLabelsFile, err)
	}
	allowed, err := telemetry.ParseAllowedLabels(c.AllowedLabels)
	if err != nil {
		return nil, fmt.Errorf("--allow-metric-labels: %w", err)
	}
	for key, list := range fromFile {
		if _, set := allowed[key]; !set {
			allowed[key] = list
		}
	}
	for _, name := range c.Disabled {
		if name == "" {
			return nil, errors.New("--disabled-metrics contains an empty name")
		}
	}
	return &telemetry.MetricFilter{Disabled: c.Disabled, AllowedLabels: allowed}, nil
}
