package operator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// groupVersion is the group version of the definition in testdata/.
var groupVersion = schema.GroupVersion{Group: "web.example.com", Version: "v1"}

// Site is a web site.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitempty"`
}

// SiteSpec is the desired state of a Site.
type SiteSpec struct {
	Domain   string `json:"domain"`
	Replicas *int32 `json:"replicas,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Pages    []Page `json:"pages,omitempty"`
}

// Page is a page of a Site.
type Page struct {
	Path string `json:"path"`
	Text string `json:"text,omitempty"`
}

// SiteStatus is the observed state of a Site.
type SiteStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas,omitempty"`
	Selector           string             `json:"selector,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// SiteList is a list of Sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Site `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (s *Site) DeepCopyObject() runtime.Object {
	c := *s
	s.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	if s.Spec.Replicas != nil {
		replicas := *s.Spec.Replicas
		c.Spec.Replicas = &replicas
	}
	c.Spec.Pages = append([]Page(nil), s.Spec.Pages...)
	c.Status.Conditions = append([]metav1.Condition(nil), s.Status.Conditions...)
	return &c
}

// DeepCopyObject implements runtime.Object.
func (l *SiteList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Site))
	}
	return &c
}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(s, groupVersion)
}

// newUnstructuredSite returns a Site for clients that do not have its Go type.
func newUnstructuredSite(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": groupVersion.String(), "kind": "Site",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     map[string]any{"domain": name + ".example.com"},
	}}
}
