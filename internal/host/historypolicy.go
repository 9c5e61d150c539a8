package host

import (
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/storage/archive"
)

// historyPolicy is the content of --history-policy-file.
type historyPolicy struct {
	metav1.TypeMeta `json:",inline"`
	Rules           []historyRule `json:"rules"`
}

// historyRule is a rule that applies to a list of resources.
type historyRule struct {
	// Resources are names such as nodes or deployments.apps.
	Resources []string `json:"resources"`
	// MaxAge is the time after which earlier states are deleted. It is required, and at least 1s.
	MaxAge metav1.Duration `json:"maxAge"`
	// MaxVersions is the maximum number of versions of an object; 0 means no limit.
	MaxVersions int `json:"maxVersions"`
}

const (
	historyPolicyVersion = "history.mainstay.dev/v1"
	historyPolicyKind    = "HistoryPolicy"
)

// readPolicy reads --history-policy-file.
func (c *HistoryConfig) readPolicy(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if c.fromFile, err = parseHistoryPolicy(data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func parseHistoryPolicy(data []byte) (map[schema.GroupResource]archive.Rule, error) {
	var policy historyPolicy
	if err := yaml.UnmarshalStrict(data, &policy); err != nil {
		return nil, err
	}
	if policy.APIVersion != historyPolicyVersion || policy.Kind != historyPolicyKind {
		return nil, fmt.Errorf("the apiVersion must be %s, and the kind %s", historyPolicyVersion, historyPolicyKind)
	}
	rules := map[schema.GroupResource]archive.Rule{}
	for i, r := range policy.Rules {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("rules[%d]: %w", i, err)
		}
		for _, name := range r.Resources {
			resource := schema.ParseGroupResource(name)
			if resource.Resource == "" {
				return nil, fmt.Errorf("rules[%d]: a resource has no name", i)
			}
			if _, twice := rules[resource]; twice {
				return nil, fmt.Errorf("rules[%d]: %s has another rule", i, name)
			}
			rules[resource] = archive.Rule{MaxAge: r.MaxAge.Duration, MaxVersions: r.MaxVersions}
		}
	}
	return rules, nil
}

func (r *historyRule) check() error {
	switch {
	case len(r.Resources) == 0:
		return errors.New("resources are required, such as nodes or deployments.apps")
	case r.MaxAge.Duration < time.Second:
		return errors.New("maxAge is required, such as 720h, and must be at least 1s")
	case r.MaxVersions < 0:
		return errors.New("maxVersions cannot be negative")
	}
	return nil
}
