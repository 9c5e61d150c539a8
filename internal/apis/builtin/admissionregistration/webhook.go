package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func webhookDefinitions() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration"),
		builtin.AgeColumn(),
	}
}

func mutatingWebhookColumns() *builtin.Columns[*admissionregistrationv1.MutatingWebhookConfiguration] {
	return &builtin.Columns[*admissionregistrationv1.MutatingWebhookConfiguration]{
		Definitions: webhookDefinitions(),
		Cells: func(c *admissionregistrationv1.MutatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), builtin.Age(c.CreationTimestamp, now)}
		},
	}
}

func validatingWebhookColumns() *builtin.Columns[*admissionregistrationv1.ValidatingWebhookConfiguration] {
	return &builtin.Columns[*admissionregistrationv1.ValidatingWebhookConfiguration]{
		Definitions: webhookDefinitions(),
		Cells: func(c *admissionregistrationv1.ValidatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), builtin.Age(c.CreationTimestamp, now)}
		},
	}
}
