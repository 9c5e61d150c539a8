package host

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/flags"
	"mainstay.dev/mainstay/internal/storage/archive"
)

// HistoryConfig configures the history of the served control plane, from which clients can read earlier
// states of objects.
type HistoryConfig struct {
	// MaxAge is the time after which the earlier state of a changed or deleted object is deleted. 0
	// selects 30 days for an embedded store on disk, and no history for all other stores; a negative
	// value disables the history.
	MaxAge time.Duration
	// MaxBytes is the maximum size of the history on disk; 0 selects 1 GiB. The oldest states are
	// deleted first.
	MaxBytes int64
	// Resources contains rules for individual resources. A rule replaces the rule of
	// DefaultHistoryResources for the same resource.
	Resources map[schema.GroupResource]archive.Rule

	// fromFile contains the rules of --history-policy-file. Resources has precedence.
	fromFile map[schema.GroupResource]archive.Rule
}

// DefaultHistoryResources returns the default rules, in a new map. They limit the history of resources that
// change often and describe only the current state.
func DefaultHistoryResources() map[schema.GroupResource]archive.Rule {
	return map[schema.GroupResource]archive.Rule{
		{Group: "coordination.k8s.io", Resource: "leases"}: {MaxAge: 15 * time.Minute},
		{Resource: "events"}: {MaxAge: time.Hour},
	}
}

// noHistory is the value of HistoryConfig.MaxAge that disables the history.
const noHistory = -1

func (c *HistoryConfig) addFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.MaxAge, "history-max-age", 0, fmt.Sprintf("how long the earlier states of changed and deleted objects can be read, see --help of \"mainstay at\"; 0 selects %s for an embedded store on disk and no history for other stores; a negative value disables the history", archive.DefaultMaxAge))
	flags.BytesVar(fs, &c.MaxBytes, "history-max-size", "1Gi", "maximum size of the history on disk, such as 512Mi or 10Gi; if it is exceeded, the oldest states are deleted first; 0 selects the default")
	flags.Var(fs, "history-policy-file", "file", "", "YAML file with the rules of individual resources in the history; --history-resources has precedence", c.readPolicy)
	flags.ListVar(fs, "history-resources", "rules", "maximum age, and optionally maximum number of versions of an object, in the history of individual resources, as RESOURCE[.GROUP]=AGE[/VERSIONS], comma-separated; may be repeated (default: leases.coordination.k8s.io=15m,events=1h)", c.addResources)
}

// addResources parses a comma-separated list of rules and adds them to Resources.
func (c *HistoryConfig) addResources(list string) error {
	for item := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		age, versions, limited := strings.Cut(value, "/")
		var rule archive.Rule
		var err error
		if ok && name != "" {
			rule.MaxAge, err = time.ParseDuration(age)
		}
		if limited && err == nil {
			rule.MaxVersions, err = strconv.Atoi(versions)
		}
		if !ok || name == "" || err != nil || rule.MaxAge <= 0 || limited && rule.MaxVersions <= 0 {
			return fmt.Errorf("%q is not a rule such as leases.coordination.k8s.io=15m or nodes=720h/100", item)
		}
		if c.Resources == nil {
			c.Resources = map[schema.GroupResource]archive.Rule{}
		}
		c.Resources[schema.ParseGroupResource(name)] = rule
	}
	return nil
}

// setDefaults replaces zero values with the defaults. embedded is true for an embedded store on disk.
func (c *HistoryConfig) setDefaults(embedded bool) {
	if c.MaxAge == 0 && embedded {
		c.MaxAge = archive.DefaultMaxAge
	}
	if c.MaxAge == 0 {
		c.MaxAge = noHistory
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = archive.DefaultMaxBytes
	}
}

// minHistorySize is the minimum of HistoryConfig.MaxBytes, in bytes.
const minHistorySize = 16 << 20

func (c *HistoryConfig) check() error {
	if c.MaxBytes > 0 && c.MaxBytes < minHistorySize {
		return errors.New("--history-max-size must be at least 16Mi")
	}
	return nil
}

func (c *HistoryConfig) enabled() bool { return c.MaxAge > 0 }

// policy returns the policy of the archive. The rules in Resources override the rules of the policy file,
// which override the defaults.
func (c *HistoryConfig) policy() archive.Policy {
	p := archive.Policy{MaxAge: c.MaxAge, MaxBytes: c.MaxBytes, Resources: map[string]archive.Rule{}}
	for _, rules := range []map[schema.GroupResource]archive.Rule{DefaultHistoryResources(), c.fromFile, c.Resources} {
		for resource, rule := range rules {
			p.Resources[controlplane.StoragePath(resource)] = rule
		}
	}
	// The leases of servers do not belong to an API resource, so no rule above applies to them.
	for _, path := range controlplane.ServerLeasePaths() {
		p.Resources[path] = archive.Rule{MaxAge: 15 * time.Minute}
	}
	return p
}
