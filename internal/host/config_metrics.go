package host

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/telemetry"
)

// MetricsConfig configures the metrics that the server exposes.
type MetricsConfig struct {
	// Disabled are the names of metrics that are not exposed.
	Disabled []string
	// AllowedLabels maps METRIC,LABEL to a comma-separated list of the allowed values of the label. Other
	// values are replaced with "unexpected".
	AllowedLabels map[string]string
	// AllowedLabelsFile is a YAML file with the content of AllowedLabels; it is ignored if
	// AllowedLabels is set.
	AllowedLabelsFile string
}

// AddFlags defines the flags of the config.
func (c *MetricsConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.Disabled, "disabled-metrics", nil, "names of metrics that are not served, comma-separated")
	fs.StringToStringVar(&c.AllowedLabels, "allow-metric-labels", nil, "allowed values of a metric's label, as METRIC,LABEL='VALUE,...'; other values are replaced by \"unexpected\", and the series are added up")
	fs.StringVar(&c.AllowedLabelsFile, "allow-metric-labels-manifest", "", "YAML file with the allowed values of labels, as lines \"METRIC,LABEL\": \"VALUE,...\"; --allow-metric-labels takes precedence")
}

// filter returns the configured filter. It reads AllowedLabelsFile unless AllowedLabels is set.
func (c *MetricsConfig) filter() (telemetry.MetricFilter, error) {
	filter := telemetry.MetricFilter{Disabled: map[string]bool{}}
	for _, name := range c.Disabled {
		if !isMetricName(name) {
			return filter, fmt.Errorf("--disabled-metrics: %q is not the name of a metric, such as apiserver_request_total", name)
		}
		filter.Disabled[name] = true
	}
	var err error
	switch {
	case c.AllowedLabelsFile == "", c.AllowedLabels != nil:
		filter.AllowedValues, err = parseAllowedLabels("allow-metric-labels", c.AllowedLabels)
	default:
		filter.AllowedValues, err = readAllowedLabels(c.AllowedLabelsFile)
	}
	return filter, err
}

func isMetricName(name string) bool {
	matched, err := regexp.MatchString(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`, name)
	return err == nil && matched
}

// maxLabelsFile is the maximum size of a file with allowed labels, in bytes.
const maxLabelsFile = 1 << 20

// readAllowedLabels reads a file with allowed labels. The labels are either the whole document, which is
// the form that kube-apiserver reads, or its field allowListMapping, which is the form that the
// documentation of kube-apiserver describes.
func readAllowedLabels(name string) (map[telemetry.MetricLabel][]string, error) {
	const flag = "allow-metric-labels-manifest"
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxLabelsFile+1))
	if err == nil && len(data) > maxLabelsFile {
		err = fmt.Errorf("it is larger than %d bytes", maxLabelsFile)
	}
	var labels map[string]string
	if err == nil {
		var nested struct {
			AllowListMapping map[string]string `json:"allowListMapping"`
		}
		if err = yaml.Unmarshal(data, &labels); err != nil {
			if yaml.UnmarshalStrict(data, &nested) == nil {
				labels, err = nested.AllowListMapping, nil
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: read %s: %w", flag, name, err)
	}
	return parseAllowedLabels(flag, labels)
}

// parseAllowedLabels parses lists of allowed values. flag is the flag name for error messages.
func parseAllowedLabels(flag string, labels map[string]string) (map[telemetry.MetricLabel][]string, error) {
	allowed := map[telemetry.MetricLabel][]string{}
	for key, values := range labels {
		metric, label, _ := strings.Cut(key, ",")
		if !isMetricName(metric) || !isMetricName(label) || strings.Contains(label, ":") {
			return nil, fmt.Errorf("--%s: %q must have the form METRIC,LABEL, such as apiserver_request_total,code", flag, key)
		}
		allowed[telemetry.MetricLabel{Metric: metric, Label: label}] = strings.Split(strings.Trim(values, "'"), ",")
	}
	return allowed, nil
}
