package config

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ResourceQuota is the configuration of ResourceQuota.
type ResourceQuota struct {
	metav1.TypeMeta `json:",inline"`
	// LimitedResources selects resources that can only be consumed if a quota covers them.
	LimitedResources []LimitedResource `json:"limitedResources"`
}

// LimitedResource selects resources that require a quota.
type LimitedResource struct {
	APIGroup string `json:"apiGroup,omitempty"`
	Resource string `json:"resource"`
	// MatchContains selects the quota resources that require a quota. Each element is a substring of their
	// names, such as "requests.cpu".
	MatchContains []string `json:"matchContains,omitempty"`
	// MatchScopes are the scopes of objects that require a quota.
	MatchScopes []corev1.ScopedResourceSelectorRequirement `json:"matchScopes,omitempty"`
}

// read implements pluginConfig.
func (c *ResourceQuota) read(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	const old = "resourcequota.admission.k8s.io"
	if err := decode(data, c, group+"/v1, ResourceQuotaConfiguration", old+"/v1beta1, Configuration", old+"/v1alpha1, Configuration"); err != nil {
		return err
	}
	var errs field.ErrorList
	for i := range c.LimitedResources {
		if c.LimitedResources[i].Resource == "" {
			errs = append(errs, field.Required(field.NewPath("limitedResources").Index(i).Child("resource"), ""))
		}
	}
	return errs.ToAggregate()
}
