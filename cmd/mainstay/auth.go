package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters/authz/rbac"
	"mainstay.dev/mainstay/internal/request"
)

func newAuth(signals <-chan os.Signal) *cobra.Command {
	command := &cobra.Command{
		Use: "auth", Short: "Explain authorization decisions", Args: unknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(newAuthWhy(signals))
	return command
}

// whyOptions are the flags of "auth why".
type whyOptions struct {
	kubeconfig, user, namespace, subresource string
	groups                                   []string
}

func newAuthWhy(signals <-chan os.Signal) *cobra.Command {
	var w whyOptions
	command := &cobra.Command{
		Use:   "why VERB RESOURCE[/NAME] | VERB /PATH",
		Short: "Explain why a request of a user is allowed or denied",
		Long: `Check whether a user may perform a request on a running server, and print the binding
and rule that allow it. If the request is denied, print the user's rules that come
closest: those that lack only the verb, the name or the namespace. RESOURCE has a
form such as pods, deploy or deployments.apps.

The user is the kubeconfig's own unless --as names another; the groups of all users
are added. The command needs permission to create SubjectAccessReviews and to read
roles and bindings.`,
		Example: `  mainstay auth why --as=jane --as-group=devs -n shop delete pods/web-0
  mainstay auth why --as=system:serviceaccount:shop:bot get /metrics`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return &usageError{errors.New("a verb and a resource or path are required")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			return w.run(ctx, c.OutOrStdout(), args[0], args[1])
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&w.user, "as", "", "user (default: the kubeconfig's user)")
	flags.StringArrayVar(&w.groups, "as-group", nil, "group of the user; may be repeated")
	flags.StringVarP(&w.namespace, "namespace", "n", "", "namespace (default: all namespaces, or none for cluster-scoped resources)")
	flags.StringVar(&w.subresource, "subresource", "", "subresource, such as log or status")
	flags.StringVar(&w.kubeconfig, "kubeconfig", "", "kubeconfig of the server (default: $KUBECONFIG, or ./mainstay-data/admin.kubeconfig)")
	return command
}

func (w *whyOptions) run(ctx context.Context, out io.Writer, verb, what string) error {
	client, err := newAPIClient(w.kubeconfig)
	if err != nil {
		return err
	}
	user, err := w.resolveUser(ctx, client)
	if err != nil {
		return err
	}
	attributes, err := w.attributes(ctx, client, user, verb, what)
	if err != nil {
		return err
	}
	status, err := reviewAccess(ctx, client, attributes)
	if err != nil {
		return err
	}
	objects, err := readRBAC(ctx, client)
	if err != nil {
		return err
	}
	writeWhy(out, attributes, status, rbac.NewStatic(objects).Explain(attributes, maxNearGrants))
	return nil
}

// resolveUser returns the user that the flags or the kubeconfig specify, including the groups that all users
// have.
func (w *whyOptions) resolveUser(ctx context.Context, client *apiClient) (*request.User, error) {
	if w.user == "" {
		if len(w.groups) > 0 {
			return nil, &usageError{errors.New("--as-group requires --as")}
		}
		var self authenticationv1.SelfSubjectReview
		if err := client.do(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &self, &self); err != nil {
			return nil, err
		}
		info := &self.Status.UserInfo
		return &request.User{Name: info.Username, UID: info.UID, Groups: info.Groups}, nil
	}
	user := &request.User{Name: w.user, Groups: slices.Clone(w.groups)}
	if namespace, _, ok := request.ServiceAccountOf(w.user); ok {
		user.Groups = append(user.Groups, request.ServiceAccountGroups(namespace)...)
	}
	everybody := request.GroupAuthenticated
	if w.user == request.Anonymous {
		everybody = request.GroupUnauthenticated
	}
	if !slices.Contains(user.Groups, everybody) {
		user.Groups = append(user.Groups, everybody)
	}
	return user, nil
}

// attributes returns the authorization attributes of the request. It looks up the resource in the server's
// discovery.
func (w *whyOptions) attributes(ctx context.Context, client *apiClient, user *request.User, verb, what string) (*authorizer.Attributes, error) {
	a := &authorizer.Attributes{User: user, Verb: verb}
	if strings.HasPrefix(what, "/") {
		a.Path = what
		return a, nil
	}
	resource, name, _ := strings.Cut(what, "/")
	found, err := findResource(ctx, client, resource)
	if err != nil {
		return nil, err
	}
	a.ResourceRequest, a.APIGroup, a.APIVersion, a.Resource = true, found.group, found.version, found.Resource
	a.Name, a.Subresource, a.Namespace = name, w.subresource, w.namespace
	if !found.isNamespaced() && a.Resource != "namespaces" {
		a.Namespace = ""
	}
	return a, nil
}

// findResource finds a resource in discovery. text is RESOURCE or RESOURCE.GROUP, where RESOURCE is the plural,
// singular or short name.
func findResource(ctx context.Context, client *apiClient, text string) (discoveredResource, error) {
	resource, group, inGroup := strings.Cut(text, ".")
	found, err := discoverResources(ctx, client)
	if err != nil {
		return discoveredResource{}, err
	}
	for _, r := range found {
		if inGroup && r.group != group {
			continue
		}
		if r.Resource == resource || r.SingularResource == resource || slices.Contains(r.ShortNames, resource) {
			return r, nil
		}
	}
	return discoveredResource{}, fmt.Errorf("the server has no resource %q", text)
}

// reviewAccess returns the result of a SubjectAccessReview.
func reviewAccess(ctx context.Context, client *apiClient, a *authorizer.Attributes) (*authorizationv1.SubjectAccessReviewStatus, error) {
	access := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: a.User.Name, Groups: a.User.Groups, UID: a.User.UID}}
	if a.ResourceRequest {
		access.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: a.Namespace, Verb: a.Verb, Group: a.APIGroup, Version: a.APIVersion, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
		}
	} else {
		access.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
	}
	var review authorizationv1.SubjectAccessReview
	if err := client.do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &access, &review); err != nil {
		return nil, err
	}
	return &review.Status, nil
}

// readRBAC reads all RBAC roles and bindings.
func readRBAC(ctx context.Context, client *apiClient) (*rbac.Objects, error) {
	const at = "/apis/rbac.authorization.k8s.io/v1/"
	o := &rbac.Objects{}
	var errs [4]error
	o.ClusterRoles, errs[0] = listAll[rbacv1.ClusterRole](ctx, client, at+"clusterroles", nil)
	o.Roles, errs[1] = listAll[rbacv1.Role](ctx, client, at+"roles", nil)
	o.ClusterRoleBindings, errs[2] = listAll[rbacv1.ClusterRoleBinding](ctx, client, at+"clusterrolebindings", nil)
	o.RoleBindings, errs[3] = listAll[rbacv1.RoleBinding](ctx, client, at+"rolebindings", nil)
	return o, errors.Join(errs[:]...)
}

// maxNearGrants is the maximum number of printed grants that almost allow the request.
const maxNearGrants = 5

func writeWhy(out io.Writer, attributes *authorizer.Attributes, status *authorizationv1.SubjectAccessReviewStatus, grants []rbac.Grant) {
	verdict, can := "denied", "cannot"
	if status.Allowed {
		verdict, can = "allowed", "can"
	}
	fmt.Fprintf(out, "%s: %s %s %s\n", verdict, attributes.User.Name, can, describeAttributes(attributes))
	if status.Reason != "" {
		fmt.Fprintf(out, "reason: %s\n", strings.ReplaceAll(status.Reason, "\n", "; "))
	}
	if status.EvaluationError != "" {
		fmt.Fprintf(out, "error: %s\n", status.EvaluationError)
	}
	switch {
	case status.Allowed && slices.Contains(attributes.User.Groups, request.GroupMasters):
		fmt.Fprintf(out, "by: the group %s, which is authorized for everything\n", request.GroupMasters)
		return
	case len(grants) == 0 && !status.Allowed:
		fmt.Fprintln(out, "no RBAC rule of the user comes close")
		return
	case len(grants) == 0 || status.Allowed && len(grants[0].Mismatches) > 0:
		fmt.Fprintln(out, "by: an authorizer other than RBAC")
		return
	}
	for i := range grants {
		g := &grants[i]
		if len(g.Mismatches) == 0 {
			fmt.Fprintf(out, "by: %s\n    %s\n", g.Binding, describeRule(g))
			continue
		}
		fmt.Fprintf(out, "near: %s\n    %s\n    differs in: %s\n", g.Binding, describeRule(g), strings.Join(g.Mismatches, ", "))
	}
}

func describeAttributes(a *authorizer.Attributes) string {
	if !a.ResourceRequest {
		return a.Verb + " " + a.Path
	}
	text := a.Verb + " " + a.Resource
	if a.Subresource != "" {
		text += "/" + a.Subresource
	}
	if a.APIGroup != "" {
		text += "." + a.APIGroup
	}
	if a.Name != "" {
		text += fmt.Sprintf(" %q", a.Name)
	}
	if a.Namespace != "" {
		return text + fmt.Sprintf(" in the namespace %q", a.Namespace)
	}
	return text + " at the cluster scope"
}

// describeRule describes the permissions that a rule grants, and their scope.
func describeRule(g *rbac.Grant) string {
	text := "allows " + strings.Join(g.Rule.Verbs, ", ") + " of "
	if len(g.Rule.NonResourceURLs) > 0 {
		return text + strings.Join(g.Rule.NonResourceURLs, ", ")
	}
	text += strings.Join(g.Rule.Resources, ", ")
	if groups := strings.Join(g.Rule.APIGroups, ", "); groups != "" {
		text += " in " + groups
	}
	if len(g.Rule.ResourceNames) > 0 {
		text += " named " + strings.Join(g.Rule.ResourceNames, ", ")
	}
	if g.Namespace != "" {
		text += fmt.Sprintf(", in the namespace %q", g.Namespace)
	}
	return text
}
