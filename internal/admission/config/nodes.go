package config

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// PodNodeSelector is the configuration of PodNodeSelector.
type PodNodeSelector struct {
	// Default is the node selector for pods in namespaces that have no node selector annotation.
	Default labels.Set
	// Allowed maps the name of a namespace to the labels that the node selectors of its pods may contain.
	// Namespaces without an entry are not restricted.
	Allowed map[string]labels.Set
}

// read implements pluginConfig.
func (c *PodNodeSelector) read(data []byte) error {
	var f struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := decodeFields(data, &f); err != nil {
		return err
	}
	const ofCluster = "clusterDefaultNodeSelector"
	c.Allowed = make(map[string]labels.Set)
	for namespace, text := range f.Selectors {
		selector, err := labels.ConvertSelectorToLabelsMap(text)
		switch {
		case err != nil:
			return fmt.Errorf("podNodeSelectorPluginConfig.%s: %w", namespace, err)
		case namespace == ofCluster:
			c.Default = selector
		}
		c.Allowed[namespace] = selector
	}
	return nil
}

// PodTolerationRestriction is the configuration of PodTolerationRestriction. It applies to namespaces that do
// not have the corresponding annotations.
type PodTolerationRestriction struct {
	metav1.TypeMeta `json:",inline"`
	// Default contains the tolerations that are added to pods. Whitelist contains the permitted tolerations; an
	// empty list permits all.
	Default   []corev1.Toleration `json:"default,omitempty"`
	Whitelist []corev1.Toleration `json:"whitelist,omitempty"`
}

// read implements pluginConfig.
func (c *PodTolerationRestriction) read(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if err := decode(data, c, "podtolerationrestriction.admission.k8s.io/v1alpha1, Configuration"); err != nil {
		return err
	}
	for _, list := range []struct {
		name        string
		tolerations []corev1.Toleration
	}{{"default", c.Default}, {"whitelist", c.Whitelist}} {
		for i := range list.tolerations {
			if err := validateToleration(&list.tolerations[i]); err != nil {
				return fmt.Errorf("%s[%d]: %w", list.name, i, err)
			}
		}
	}
	return nil
}

// validateToleration returns an error if a toleration is invalid.
func validateToleration(t *corev1.Toleration) error {
	switch t.Operator {
	case corev1.TolerationOpEqual, "", corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt:
	default:
		return fmt.Errorf("unknown operator %q", t.Operator)
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		return fmt.Errorf("unknown effect %q", t.Effect)
	}
	switch {
	case t.Key == "" && t.Operator != corev1.TolerationOpExists:
		return fmt.Errorf("operator must be Exists when key is empty")
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		return fmt.Errorf("value must be empty when operator is Exists")
	case t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
		return fmt.Errorf("effect must be NoExecute when tolerationSeconds is set")
	}
	return nil
}
