package builtin

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Texts that tables show in place of a value.
const (
	None    = "<none>"
	Unset   = "<unset>"
	Unknown = "<unknown>"
)

// OrNone returns s, or <none> if it is empty.
func OrNone(s string) string {
	if s == "" {
		return None
	}
	return s
}

// JoinFirst joins the first max elements of a list. If the list is longer, it appends the number of omitted
// elements.
func JoinFirst(list []string, separator string, max int) string {
	if len(list) <= max {
		return strings.Join(list, separator)
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(list[:max], separator), len(list)-max)
}

// TemplateColumns returns the definitions of the table columns that describe the containers of a pod template.
// TemplateCells returns the matching cells.
func TemplateColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		WideColumn("Containers", "string", "Names of each container in the template."),
		WideColumn("Images", "string", "Images referenced by each container in the template."),
	}
}

// TemplateCells returns the names and images of the containers of a pod template. Both are separated by
// commas.
func TemplateCells(template *corev1.PodTemplateSpec) (names, images string) {
	var name, image []string
	for i := range template.Spec.Containers {
		name = append(name, template.Spec.Containers[i].Name)
		image = append(image, template.Spec.Containers[i].Image)
	}
	return strings.Join(name, ","), strings.Join(image, ",")
}
