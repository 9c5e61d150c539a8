package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Words that tables show in place of a value.
const (
	none    = "<none>"
	unset   = "<unset>"
	unknown = "<unknown>"
)

// orNone shows what is empty as a word.
func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// labelText shows labels, or a selector of equalities, sorted by key.
func labelText(set map[string]string) string { return orNone(labels.Set(set).String()) }

// containerTexts shows the names and the images of containers.
func containerTexts(containers []corev1.Container) (names, images string) {
	var name, image []string
	for i := range containers {
		name = append(name, containers[i].Name)
		image = append(image, containers[i].Image)
	}
	return strings.Join(name, ","), strings.Join(image, ",")
}
