// Package accounttokens fills in secrets that ask for a token of a service account, and
// deletes them with their account, as kube-controller-manager's
// serviceaccount-token-controller does. Tokens like these do not expire; most programs ask
// for others.
package accounttokens

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/serviceaccount"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	// Name is that of the controller, and account its service account.
	Name    = "serviceaccount-token-controller"
	account = "tokens-controller"
	workers = 5
)

// Config configures a Controller. All fields except Queues are required.
type Config struct {
	// Secrets and Accounts are the stored ones, past the watch cache.
	Secrets, Accounts storage.Interface
	// Sign returns a token with the claims.
	Sign func(context.Context, *serviceaccount.Claims) (string, error)
	// Bundle returns the certificates by which clients verify the server, as PEM.
	Bundle func() []byte
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; may be nil.
	Queues *work.Metrics
}

// Controller is the controller.
type Controller struct {
	config   Config
	secrets  *loopback.Client[*corev1.Secret]
	accounts *loopback.Client[*corev1.ServiceAccount]
}

// Registration returns the registration of the controller. It has no work without a serving CA,
// because tokens in secrets are published with it.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		if d.Keys.ServingCA == nil {
			return nil, nil
		}
		config := Config{Sign: d.Keys.SignToken, Bundle: d.Keys.ServingCA, Access: d.Access, Logger: d.Logger, Queues: d.Queues}
		var err error
		if config.Secrets, err = d.Stored(corev1.Resource("secrets")); err != nil {
			return nil, err
		}
		if config.Accounts, err = d.Stored(corev1.Resource("serviceaccounts")); err != nil {
			return nil, err
		}
		return New(config), nil
	}}
}

// New returns a controller that has not started.
func New(config Config) *Controller {
	access := config.Access.AsController(account)
	return &Controller{
		config:   config,
		secrets:  loopback.For[*corev1.Secret](access, corev1.SchemeGroupVersion.WithResource("secrets")),
		accounts: loopback.For[*corev1.ServiceAccount](access, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
	}
}

// key is a secret, or a deleted account.
type key struct {
	name      types.NamespacedName
	isAccount bool
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[key]{Name: Name, Workers: workers, Do: c.sync, Logger: c.config.Logger, Metrics: c.config.Queues})
	return &subscriber{queue}, queue.Close
}

// subscriber enqueues secrets that may be tokens, and deleted accounts.
type subscriber struct{ queue *work.Queue[key] }

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	switch {
	case c.Path == "secrets" && (mayBeToken(c.Value) || c.Value == nil && mayBeToken(c.Prev)):
		s.queue.Add(key{name: name})
	case c.Path == "serviceaccounts" && c.Value == nil:
		s.queue.Add(key{name: name, isAccount: true})
	}
}

// mayBeToken reports whether a stored secret contains the type of tokens, without decoding it.
func mayBeToken(value []byte) bool {
	return bytes.Contains(value, []byte(corev1.SecretTypeServiceAccountToken))
}

func (c *Controller) sync(ctx context.Context, k key) error {
	if k.isAccount {
		return c.deleteTokens(ctx, k.name)
	}
	secret, err := storage.FindAs[*corev1.Secret](ctx, c.config.Secrets, k.name)
	switch {
	case err != nil:
		return err
	case secret == nil:
		return c.forget(ctx, k.name)
	case secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil || secret.Annotations[corev1.ServiceAccountNameKey] == "":
		return nil
	}
	of, err := c.accountOf(ctx, secret)
	if err != nil {
		return err
	}
	if of == nil {
		return c.delete(ctx, secret)
	}
	return c.fill(ctx, secret, of)
}

// accountOf returns the account of a token; nil if it was deleted or replaced.
func (c *Controller) accountOf(ctx context.Context, secret *corev1.Secret) (*corev1.ServiceAccount, error) {
	of, err := storage.FindAs[*corev1.ServiceAccount](ctx, c.config.Accounts, types.NamespacedName{Namespace: secret.Namespace, Name: secret.Annotations[corev1.ServiceAccountNameKey]})
	if err != nil || of == nil {
		return nil, err
	}
	if uid := secret.Annotations[corev1.ServiceAccountUIDKey]; uid != "" && uid != string(of.UID) {
		return nil, nil
	}
	return of, nil
}

func (c *Controller) delete(ctx context.Context, secret *corev1.Secret) error {
	name := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	err := c.secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the token %s of a deleted service account: %w", name, err)
	}
	return nil
}

// errOther reports that another object has the name. It is processed again.
var errOther = errors.New("it is another object")

// fill adds missing data to a secret. It does not check an existing token.
func (c *Controller) fill(ctx context.Context, secret *corev1.Secret, of *corev1.ServiceAccount) error {
	if isFilled(secret, c.config.Bundle()) {
		return nil
	}
	name := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	_, err := c.secrets.Update(ctx, name, func(current *corev1.Secret) error {
		if current.UID != secret.UID {
			return errOther
		}
		data := map[string][]byte{corev1.ServiceAccountRootCAKey: c.config.Bundle()}
		if len(current.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
			data[corev1.ServiceAccountNamespaceKey] = []byte(current.Namespace)
		}
		if len(current.Data[corev1.ServiceAccountTokenKey]) == 0 {
			token, err := c.config.Sign(ctx, claims(current, of))
			if err != nil {
				return err
			}
			data[corev1.ServiceAccountTokenKey] = []byte(token)
		}
		if current.Data == nil {
			current.Data = map[string][]byte{}
		}
		for key, value := range data {
			current.Data[key] = value
		}
		metav1.SetMetaDataAnnotation(&current.ObjectMeta, corev1.ServiceAccountUIDKey, string(of.UID))
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("fill in the token %s: %w", name, err)
	}
	return nil
}

// isFilled reports whether a secret is complete.
func isFilled(secret *corev1.Secret, bundle []byte) bool {
	return len(secret.Data[corev1.ServiceAccountTokenKey]) > 0 && len(secret.Data[corev1.ServiceAccountNamespaceKey]) > 0 &&
		bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], bundle)
}

// claims returns the claims for the token of a secret.
func claims(secret *corev1.Secret, of *corev1.ServiceAccount) *serviceaccount.Claims {
	return &serviceaccount.Claims{
		Claims: jwt.Claims{Issuer: serviceaccount.LegacyIssuer, Subject: request.ServiceAccountUser(of.Namespace, of.Name)},
		Legacy: serviceaccount.Legacy{Namespace: of.Namespace, Secret: secret.Name, Name: of.Name, UID: string(of.UID)},
	}
}

// deleteTokens deletes the tokens of a deleted account.
func (c *Controller) deleteTokens(ctx context.Context, name types.NamespacedName) error {
	list, err := c.config.Secrets.List(ctx, name.Namespace, rest.ListOptions{})
	if err != nil {
		return err
	}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		if !mayBeToken(record.Stored()) {
			continue
		}
		secret, err := codec.SharedAs[*corev1.Secret](record)
		if err != nil {
			return err
		}
		if secret.Type != corev1.SecretTypeServiceAccountToken || secret.Annotations[corev1.ServiceAccountNameKey] != name.Name {
			continue
		}
		of, err := c.accountOf(ctx, secret)
		if err == nil && of == nil {
			err = c.delete(ctx, secret)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget removes a deleted secret from the lists of the accounts of its namespace.
func (c *Controller) forget(ctx context.Context, name types.NamespacedName) error {
	list, err := c.config.Accounts.List(ctx, name.Namespace, rest.ListOptions{})
	if err != nil {
		return err
	}
	isIt := func(r corev1.ObjectReference) bool { return r.Name == name.Name }
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		of, err := codec.SharedAs[*corev1.ServiceAccount](record)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(of.Secrets, isIt) {
			continue
		}
		_, err = c.accounts.Update(ctx, record.Name(), func(current *corev1.ServiceAccount) error {
			current.Secrets = slices.DeleteFunc(slices.Clone(current.Secrets), isIt)
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the secret %s from the list of the service account %s: %w", name.Name, record.Name(), err)
		}
	}
	return nil
}
