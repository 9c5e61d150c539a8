package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

func prepareServiceAccount(_ *builtin.Operation, account *corev1.ServiceAccount) {
	for i := range account.Secrets {
		// Secrets are of the account's own namespace; nothing but the name counts.
		account.Secrets[i] = corev1.ObjectReference{Name: account.Secrets[i].Name}
	}
}

func prepareServiceAccountUpdate(op *builtin.Operation, account, _ *corev1.ServiceAccount) {
	prepareServiceAccount(op, account)
}

func serviceAccountColumns() *builtin.Columns[corev1.ServiceAccount] {
	return &builtin.Columns[corev1.ServiceAccount]{
		Definitions: []metav1.TableColumnDefinition{builtin.NameColumn(), builtin.AgeColumn()},
		Cells: func(account *corev1.ServiceAccount, now time.Time) []any {
			return []any{account.Name, builtin.Age(account.CreationTimestamp, now)}
		},
	}
}
