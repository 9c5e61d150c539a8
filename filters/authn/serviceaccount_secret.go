package authn

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/serviceaccount"
)

// invalidSince is the label of secrets whose token was not used for so long that
// kube-controller-manager took it out of use.
const invalidSince = "kubernetes.io/legacy-token-invalid-since"

// ofSecret verifies the token of a secret, which does not end by itself.
func (s *ServiceAccounts) ofSecret(ctx context.Context, token string, claims *serviceaccount.Claims) (*request.User, error) {
	names := &claims.Legacy
	if err := checkLegacy(claims.Subject, names); err != nil {
		return nil, err
	}
	if !s.config.WithoutLookup {
		account, err := s.lookup(ctx, token, names)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == names.Secret }) {
			s.config.Metrics.automatic.Inc()
		} else {
			s.config.Metrics.manual.Inc()
		}
	}
	return &request.User{
		Name: request.ServiceAccountUser(names.Namespace, names.Name), UID: names.UID, Groups: request.ServiceAccountGroups(names.Namespace),
	}, nil
}

func checkLegacy(subject string, names *serviceaccount.Legacy) error {
	for _, claim := range []struct{ name, value string }{
		{"sub", subject}, {"namespace", names.Namespace}, {"secretName", names.Secret},
		{"serviceAccountName", names.Name}, {"serviceAccountUID", names.UID},
	} {
		if claim.value == "" {
			return fmt.Errorf("%s claim is missing", claim.name)
		}
	}
	if subject != request.ServiceAccountUser(names.Namespace, names.Name) {
		return errors.New("sub claim is invalid")
	}
	return nil
}

// lookup returns the account of a token whose secret still holds it.
func (s *ServiceAccounts) lookup(ctx context.Context, token string, names *serviceaccount.Legacy) (*corev1.ServiceAccount, error) {
	secret, err := s.config.Secrets.Get(ctx, types.NamespacedName{Namespace: names.Namespace, Name: names.Secret})
	switch {
	case err != nil || secret.DeletionTimestamp != nil:
		return nil, errors.New("Token has been invalidated")
	case subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) == 0:
		return nil, errors.New("Token does not match server's copy")
	}
	account, err := s.config.Accounts.Get(ctx, types.NamespacedName{Namespace: names.Namespace, Name: names.Name})
	switch {
	case err != nil:
		return nil, err
	case account.DeletionTimestamp != nil:
		return nil, fmt.Errorf("ServiceAccount %s/%s has been deleted", names.Namespace, names.Name)
	case string(account.UID) != names.UID:
		return nil, fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", account.UID, names.UID)
	}
	if secret.Labels[invalidSince] != "" {
		s.config.Metrics.invalid.Inc()
		return nil, fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the 'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token",
			names.Namespace, names.Secret, names.Namespace, names.Name)
	}
	return account, nil
}
