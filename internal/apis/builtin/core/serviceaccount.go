package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func prepareServiceAccount(_ *builtin.Operation, account *corev1.ServiceAccount) {
	for i := range account.Secrets {
		// A secret is always in the namespace of the account, so only its name has an effect.
		account.Secrets[i] = corev1.ObjectReference{Name: account.Secrets[i].Name}
	}
}

func prepareServiceAccountUpdate(op *builtin.Operation, account, _ *corev1.ServiceAccount) {
	prepareServiceAccount(op, account)
}

// mountableSecrets is the annotation that restricts the pods of an account to the secrets that the account
// lists.
const mountableSecrets = "kubernetes.io/enforce-mountable-secrets"

func serviceAccountWarnings(_ *builtin.Operation, account, old *corev1.ServiceAccount) []string {
	_, set := account.Annotations[mountableSecrets]
	if old != nil {
		_, before := old.Annotations[mountableSecrets]
		set = set && !before
	}
	if !set {
		return nil
	}
	return []string{"metadata.annotations[" + mountableSecrets + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}

func serviceAccountColumns() *builtin.Columns[*corev1.ServiceAccount] {
	return &builtin.Columns[*corev1.ServiceAccount]{
		Definitions: []metav1.TableColumnDefinition{builtin.NameColumn(), builtin.AgeColumn()},
		Cells: func(account *corev1.ServiceAccount, now time.Time) []any {
			return []any{account.Name, builtin.Age(account.CreationTimestamp, now)}
		},
	}
}
