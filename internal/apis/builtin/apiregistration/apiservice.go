package apiregistration

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/simulation"
)

// prepare sets the Available condition of local APIServices to true.
func prepare(op *builtin.Operation, service *apiregistrationv1.APIService) {
	if service.Spec.Service != nil {
		return
	}
	service.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.NewTime(simulation.Now(op.Context)),
		Reason: "Local", Message: "Local APIServices are always available",
	}}
}

func columns() *builtin.Columns[*apiregistrationv1.APIService] {
	return &builtin.Columns[*apiregistrationv1.APIService]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Service", "string", "The reference to the service that hosts this API endpoint."),
			builtin.Column("Available", "string", "Whether this service is available."),
			builtin.AgeColumn(),
		},
		Cells: func(service *apiregistrationv1.APIService, now time.Time) []any {
			at := "Local"
			if s := service.Spec.Service; s != nil {
				at = s.Namespace + "/" + s.Name
			}
			return []any{service.Name, at, availableText(service), builtin.Age(service.CreationTimestamp, now)}
		},
	}
}

func availableText(service *apiregistrationv1.APIService) string {
	for i := range service.Status.Conditions {
		c := &service.Status.Conditions[i]
		switch {
		case c.Type != apiregistrationv1.Available:
		case c.Status == apiregistrationv1.ConditionTrue:
			return string(c.Status)
		default:
			return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
	}
	return string(apiregistrationv1.ConditionUnknown)
}
