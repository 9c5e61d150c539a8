package core

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

// Limits of token lifetimes, in seconds.
const (
	defaultTokenExpiration = 60 * 60
	minTokenExpiration     = 10 * 60
	maxTokenExpiration     = 1 << 32
	// podTokenExpiration is the lifetime that the admission plugin requests for the token of each pod, in
	// seconds. The server extends the lifetime of such tokens, because some clients do not reload the token
	// file.
	podTokenExpiration      = 60*60 + 7
	extendedTokenExpiration = 365 * 24 * 60 * 60
)

// issuedCredentialID is the key of the audit annotation that contains the ID of an issued token.
const issuedCredentialID = "authentication.kubernetes.io/issued-credential-id"

// serviceAccountToken declares the /token subresource, which issues tokens for a service account.
func serviceAccountToken() builtin.Subresource {
	version := builtin.VirtualVersion[authenticationv1.TokenRequest](authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"))
	version.Default = func(obj codec.Object) {
		if r := obj.(*authenticationv1.TokenRequest); r.Spec.ExpirationSeconds == nil {
			r.Spec.ExpirationSeconds = new(int64(defaultTokenExpiration))
		}
	}
	kind := &codec.Kind{Hub: version}
	return builtin.Subresource{
		Name: "token", Version: version, Kind: kind,
		Storage: func(env *builtin.Env, store *registry.Store) rest.Storage { return &tokenIssuer{env, store, kind} },
	}
}

type tokenIssuer struct {
	env      *builtin.Env
	accounts *registry.Store
	kind     *codec.Kind
}

var _ rest.NamedCreater = (*tokenIssuer)(nil)

// CreateNamed implements rest.NamedCreater.
func (t *tokenIssuer) CreateNamed(ctx context.Context, name types.NamespacedName, obj codec.Object, validate rest.ValidateObjectFunc, _ metav1.CreateOptions) (*codec.Record, error) {
	asked := obj.(*authenticationv1.TokenRequest)
	if err := checkTokenRequestName(asked, name); err != nil {
		return nil, err
	}
	account, err := readStored[*corev1.ServiceAccount](ctx, t.accounts, name)
	if err != nil {
		return nil, err
	}
	now := simulation.Now(ctx).Truncate(time.Second)
	if err := t.complete(asked, account, now); err != nil {
		return nil, err
	}
	if errs := validateTokenRequest(asked); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tokenRequestKind(), "", errs)
	}
	if validate != nil {
		if err := validate(ctx, asked, nil); err != nil {
			return nil, err
		}
	}
	bound, err := t.bind(ctx, asked.Spec.BoundObjectRef, account)
	if err != nil {
		return nil, err
	}
	token, err := t.issue(ctx, asked, bound, now)
	if err != nil {
		return nil, err
	}
	asked.Status = authenticationv1.TokenRequestStatus{
		Token: token, ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(*asked.Spec.ExpirationSeconds) * time.Second)),
	}
	return codec.RecordOf(t.kind, asked, nil, 0), nil
}

func tokenRequestKind() schema.GroupKind {
	return schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}
}

func checkTokenRequestName(asked *authenticationv1.TokenRequest, name types.NamespacedName) error {
	metadata := field.NewPath("metadata")
	if asked.Name != "" && asked.Name != name.Name {
		return apierrors.NewInvalid(tokenRequestKind(), name.Name, field.ErrorList{
			field.Invalid(metadata.Child("name"), asked.Name, "must match the service account name if specified")})
	}
	if asked.Namespace != "" && asked.Namespace != name.Namespace {
		return apierrors.NewInvalid(tokenRequestKind(), name.Name, field.ErrorList{
			field.Invalid(metadata.Child("namespace"), asked.Namespace, "must match the service account namespace if specified")})
	}
	return nil
}

// complete checks the UID in a request and sets default values.
func (t *tokenIssuer) complete(asked *authenticationv1.TokenRequest, account *corev1.ServiceAccount, now time.Time) error {
	if t.env.Gates.Enabled(feature.TokenRequestServiceAccountUIDValidation) {
		if asked.UID != "" && asked.UID != account.UID {
			return apierrors.NewConflict(schema.GroupResource{Group: authenticationv1.GroupName, Resource: "TokenRequest"}, account.Name,
				fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", asked.UID, account.UID))
		}
		asked.UID = account.UID
	}
	asked.Name, asked.Namespace = account.Name, account.Namespace
	asked.CreationTimestamp = metav1.NewTime(now)
	asked.Status = authenticationv1.TokenRequestStatus{}
	if len(asked.Spec.Audiences) == 0 {
		asked.Spec.Audiences = t.env.Auth.Tokens.Audiences
	}
	return nil
}

func validateTokenRequest(asked *authenticationv1.TokenRequest) field.ErrorList {
	at, seconds := field.NewPath("spec", "expirationSeconds"), *asked.Spec.ExpirationSeconds
	switch {
	case seconds < minTokenExpiration:
		return field.ErrorList{field.Invalid(at, seconds, "may not specify a duration less than 10 minutes")}
	case seconds > maxTokenExpiration:
		return field.ErrorList{field.Invalid(at, seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}

// bind returns the claims of the token about the service account and the bound object.
func (t *tokenIssuer) bind(ctx context.Context, ref *authenticationv1.BoundObjectReference, account *corev1.ServiceAccount) (*serviceaccount.Bound, error) {
	bound := &serviceaccount.Bound{Namespace: account.Namespace, ServiceAccount: tokenRef(account)}
	if ref == nil {
		return bound, nil
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	name := types.NamespacedName{Namespace: account.Namespace, Name: ref.Name}
	var uid string
	var err error
	switch {
	case gvk.Group == "" && gvk.Kind == "Pod":
		uid, err = t.bindPod(ctx, bound, name, account.Name)
	case gvk.Group == "" && gvk.Kind == "Secret":
		bound.Secret, uid, err = refTo[*corev1.Secret](ctx, t.env, "secrets", name)
	case gvk.Group == "" && gvk.Kind == "Node":
		bound.Node, uid, err = refTo[*corev1.Node](ctx, t.env, "nodes", types.NamespacedName{Name: ref.Name})
	default:
		err = apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk))
	}
	if err != nil {
		return nil, err
	}
	if ref.UID != "" && uid != string(ref.UID) {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return bound, nil
}

// bindPod binds the token to a pod and adds a claim about the pod's node. If the node does not exist, this
// claim contains only the name of the node.
func (t *tokenIssuer) bindPod(ctx context.Context, bound *serviceaccount.Bound, name types.NamespacedName, account string) (uid string, err error) {
	pod, err := readStored[*corev1.Pod](ctx, t.env.Store(podResource()), name)
	if err != nil {
		return "", err
	}
	if pod.Spec.ServiceAccountName != account {
		return "", apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account))
	}
	ref := tokenRef(pod)
	bound.Pod = &ref
	if node := pod.Spec.NodeName; node != "" {
		bound.Node, _, err = refTo[*corev1.Node](ctx, t.env, "nodes", types.NamespacedName{Name: node})
		if apierrors.IsNotFound(err) {
			bound.Node, err = &serviceaccount.Ref{Name: node}, nil
		}
	}
	return ref.UID, err
}

func refTo[T codec.Object](ctx context.Context, env *builtin.Env, resource string, name types.NamespacedName) (*serviceaccount.Ref, string, error) {
	obj, err := readStored[T](ctx, env.Store(corev1.Resource(resource)), name)
	if err != nil {
		return nil, "", err
	}
	ref := tokenRef(obj)
	return &ref, ref.UID, nil
}

func tokenRef(obj metav1.Object) serviceaccount.Ref {
	return serviceaccount.Ref{Name: obj.GetName(), UID: string(obj.GetUID())}
}

// issue signs the token and sets its lifetime in asked. If the lifetime of a token is extended, asked and
// therefore the response contain the requested lifetime.
func (t *tokenIssuer) issue(ctx context.Context, asked *authenticationv1.TokenRequest, bound *serviceaccount.Bound, now time.Time) (string, error) {
	issuer := t.env.Auth.Tokens
	seconds := *asked.Spec.ExpirationSeconds
	if most := int64(issuer.MaxExpiration / time.Second); most > 0 && seconds > most {
		request.AddWarning(ctx, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", seconds, most))
		seconds = most
		asked.Spec.ExpirationSeconds = &most
	}
	if issuer.Extend && bound.Pod != nil && seconds == podTokenExpiration && isSubset(asked.Spec.Audiences, issuer.Audiences) {
		bound.WarnAfter = jwt.NewNumericDate(now.Add(podTokenExpiration * time.Second))
		seconds = extendedTokenExpiration
		if most := int64(issuer.MaxLifetime / time.Second); most > 0 {
			seconds = min(seconds, most)
		}
	}
	claims := &serviceaccount.Claims{Bound: bound, Audience: asked.Spec.Audiences, Claims: jwt.Claims{
		Issuer: issuer.Name, Subject: request.ServiceAccountUser(bound.Namespace, bound.ServiceAccount.Name),
		ID: uuid.NewString(), IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
		Expiry: jwt.NewNumericDate(now.Add(time.Duration(seconds) * time.Second)),
	}}
	token, err := issuer.Keys.Sign(ctx, claims)
	if err != nil {
		return "", apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	_ = request.Annotate(ctx, issuedCredentialID, serviceaccount.CredentialID(claims.ID)) // fails only if the event has too many annotations
	return token, nil
}

func isSubset(some, of []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(of, s) })
}

// readStored returns an object from a store. The object is shared and must not be modified.
func readStored[T codec.Object](ctx context.Context, store *registry.Store, name types.NamespacedName) (T, error) {
	record, err := store.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		var none T
		return none, err
	}
	return codec.SharedAs[T](record)
}
