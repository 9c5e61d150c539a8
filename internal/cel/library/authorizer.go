package library

import (
	"context"
	"math"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// AuthorizerType returns the CEL type of the variable "authorizer".
func AuthorizerType() *cel.Type { return cel.ObjectType("kubernetes.authorization.Authorizer") }

// ResourceCheckType returns the CEL type of a permission check for a resource. It is also the type of the
// variable "authorizer.requestResource".
func ResourceCheckType() *cel.Type { return cel.ObjectType("kubernetes.authorization.ResourceCheck") }

func pathCheckType() *cel.Type  { return cel.ObjectType("kubernetes.authorization.PathCheck") }
func groupCheckType() *cel.Type { return cel.ObjectType("kubernetes.authorization.GroupCheck") }
func decisionType() *cel.Type   { return cel.ObjectType("kubernetes.authorization.Decision") }

// Authorizer returns the library of authorization checks:
//
//	<Authorizer>.path(<string>) <PathCheck>
//	<Authorizer>.group(<string>) <GroupCheck>
//	<Authorizer>.serviceAccount(<string>, <string>) <Authorizer>    namespace and name of another user
//	<GroupCheck>.resource(<string>) <ResourceCheck>
//	<ResourceCheck>.subresource(<string>) <ResourceCheck>           also namespace, name, fieldSelector, labelSelector
//	<PathCheck>.check(<string>) <Decision>                          the argument is a verb
//	<ResourceCheck>.check(<string>) <Decision>                      the argument is a verb
//	<Decision>.allowed() <bool>, .reason() <string>, .errored() <bool>, .error() <string>
//
// All does not include this library, because only admission expressions may use it. The values of the variables
// are created by Permissions.
func Authorizer() cel.EnvOption {
	options := append(checkOptions(), decisionOptions()...)
	return cel.Lib(library{name: "kubernetes.authz", options: options})
}

// checkOptions declares the functions that create and evaluate a check.
func checkOptions() []cel.EnvOption {
	resource, text := ResourceCheckType(), cel.StringType
	detail := func(name, overload string, set func(*resourceCheck, string)) cel.EnvOption {
		return member(name, overload, resource, signature(resource, text), binary(func(c resourceCheck, s string) ref.Val {
			set(&c, s)
			return resourceCheckValue(c)
		}))
	}
	return []cel.EnvOption{
		member("path", "authorizer_path", pathCheckType(), signature(AuthorizerType(), text), binary(newPathCheck)),
		member("group", "authorizer_group", groupCheckType(), signature(AuthorizerType(), text), binary(newGroupCheck)),
		member("serviceAccount", "authorizer_serviceaccount", AuthorizerType(), signature(AuthorizerType(), text, text),
			cel.FunctionBinding(asServiceAccount)),
		member("resource", "groupcheck_resource", resource, signature(groupCheckType(), text), binary(newResourceCheck)),
		detail("subresource", "resourcecheck_subresource", func(c *resourceCheck, s string) { c.subresource = s }),
		detail("namespace", "resourcecheck_namespace", func(c *resourceCheck, s string) { c.namespace = s }),
		detail("name", "resourcecheck_name", func(c *resourceCheck, s string) { c.name = s }),
		detail("fieldSelector", "authorizer_fieldselector", func(c *resourceCheck, s string) { c.fieldSelector = s }),
		detail("labelSelector", "authorizer_labelselector", func(c *resourceCheck, s string) { c.labelSelector = s }),
		member("check", "pathcheck_check", decisionType(), signature(pathCheckType(), text), binary(func(c pathCheck, verb string) ref.Val {
			return c.subject.authorize(accessCheck{verb: verb, path: c.path})
		})),
		member("check", "resourcecheck_check", decisionType(), signature(resource, text), binary(func(c resourceCheck, verb string) ref.Val {
			c.verb = verb
			return c.subject.authorize(c.accessCheck)
		})),
	}
}

// decisionOptions declares the functions that return the parts of a decision.
func decisionOptions() []cel.EnvOption {
	part := func(name string, result *cel.Type, part func(decision) ref.Val) cel.EnvOption {
		return member(name, "decision_"+name, result, signature(decisionType()), unary(part))
	}
	return []cel.EnvOption{
		part("allowed", cel.BoolType, func(d decision) ref.Val { return types.Bool(d.decision == authorizer.DecisionAllow) }),
		part("reason", cel.StringType, func(d decision) ref.Val { return types.String(d.reason) }),
		part("errored", cel.BoolType, func(d decision) ref.Val { return types.Bool(d.err != nil) }),
		part("error", cel.StringType, func(d decision) ref.Val {
			if d.err == nil {
				return types.String("")
			}
			return types.String(d.err.Error())
		}),
	}
}

func member(name, overload string, result *cel.Type, of []*cel.Type, binding cel.OverloadOpt) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload(overload, of, result, binding))
}

// Permissions evaluates the authorization checks in the expressions for one request, for the user of the
// request and for service accounts. It caches decisions, so that a check that several expressions contain is
// evaluated only once. It is safe for concurrent use, but concurrent calls may evaluate the same check more
// than once.
type Permissions struct {
	ctx        context.Context // the context of the request
	user       *request.User
	authorizer authorizer.Authorizer

	mu        sync.Mutex
	decisions map[accessCheck]decision
}

// NewPermissions returns the Permissions for a request of a user. Checks pass ctx to the authorizer; it must be
// the context of the request.
func NewPermissions(ctx context.Context, by authorizer.Authorizer, user *request.User) *Permissions {
	return &Permissions{ctx: ctx, user: user, authorizer: by}
}

// Authorizer returns the value of the variable "authorizer".
func (p *Permissions) Authorizer() ref.Val {
	return authorizerValue(subject{permissions: p, user: p.user})
}

// Resource returns the value of the variable "authorizer.requestResource" for a request for the given resource.
func (p *Permissions) Resource(group, resource, subresource, namespace, name string) ref.Val {
	return resourceCheckValue(resourceCheck{subject: subject{permissions: p, user: p.user}, accessCheck: accessCheck{
		group: group, resource: resource, subresource: subresource, namespace: namespace, name: name,
	}})
}

// accessCheck contains the parameters of a check. If resource is empty, the check is for a path.
type accessCheck struct {
	account                                       string // user name of a service account; "" for the requesting user
	verb, path                                    string
	group, resource, subresource, namespace, name string
	fieldSelector, labelSelector                  string
}

func (q *accessCheck) attributes(user *request.User) authorizer.Attributes {
	if q.resource == "" {
		return authorizer.Attributes{User: user, Verb: q.verb, Path: q.path}
	}
	a := authorizer.Attributes{
		User: user, Verb: q.verb, ResourceRequest: true, APIGroup: q.group, APIVersion: "*",
		Resource: q.resource, Subresource: q.subresource, Namespace: q.namespace, Name: q.name,
	}
	if q.fieldSelector != "" {
		selector, err := fields.ParseSelector(q.fieldSelector)
		if err == nil {
			a.FieldSelectorRequirements = selector.Requirements()
		}
		a.FieldSelectorParsingErr = err
	}
	if q.labelSelector != "" {
		a.LabelSelectorRequirements, a.LabelSelectorParsingErr = labels.ParseToRequirements(q.labelSelector)
	}
	return a
}

// subject is the user or service account whose permissions are checked.
type subject struct {
	permissions *Permissions
	user        *request.User
	account     string // user name of the service account from the expression; "" for the requesting user
}

type pathCheck struct {
	subject subject
	path    string
}

type groupCheck struct {
	subject subject
	group   string
}

type resourceCheck struct {
	subject subject
	accessCheck
}

type decision struct {
	decision authorizer.Decision
	reason   string
	err      error
}

func (c subject) authorize(q accessCheck) ref.Val {
	q.account = c.account
	p := c.permissions
	p.mu.Lock()
	cached, ok := p.decisions[q]
	p.mu.Unlock()
	if ok {
		return decisionValue(cached)
	}
	var d decision
	attributes := q.attributes(c.user)
	d.decision, d.reason, d.err = p.authorizer.Authorize(p.ctx, &attributes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decisions == nil {
		p.decisions = map[accessCheck]decision{}
	}
	p.decisions[q] = d
	return decisionValue(d)
}

func authorizerValue(c subject) ref.Val          { return opaque(AuthorizerType(), c) }
func resourceCheckValue(c resourceCheck) ref.Val { return opaque(ResourceCheckType(), c) }
func decisionValue(d decision) ref.Val           { return opaque(decisionType(), d) }

// opaque returns a CEL value that can only be passed to functions. The value is not equal to any value, not
// even itself.
func opaque[T any](t *cel.Type, v T) ref.Val {
	never := func(T, T) bool { return false }
	return (&kind[T]{name: t.TypeName(), typ: t, equal: never}).wrap(v)
}

func newPathCheck(c subject, path string) ref.Val {
	if strings.TrimSpace(path) == "" {
		return types.NewErr("path must not be empty")
	}
	return opaque(pathCheckType(), pathCheck{c, path})
}

func newGroupCheck(c subject, group string) ref.Val {
	return opaque(groupCheckType(), groupCheck{c, group})
}

func newResourceCheck(c groupCheck, resource string) ref.Val {
	if strings.TrimSpace(resource) == "" {
		return types.NewErr("resource must not be empty")
	}
	return resourceCheckValue(resourceCheck{subject: c.subject, accessCheck: accessCheck{group: c.group, resource: resource}})
}

func asServiceAccount(args ...ref.Val) ref.Val {
	c, ok := argument[subject](args[0])
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	namespace, ok := argument[string](args[1])
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[1])
	}
	name, ok := argument[string](args[2])
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[2])
	}
	if len(apivalidation.ValidateServiceAccountName(name, false)) > 0 {
		return types.NewErr("Invalid service account name")
	}
	if len(apivalidation.ValidateNamespaceName(namespace, false)) > 0 {
		return types.NewErr("Invalid service account namespace")
	}
	c.account = request.ServiceAccountUser(namespace, name)
	c.user = &request.User{Name: c.account, Groups: request.ServiceAccountGroups(namespace)}
	return authorizerValue(c)
}

// checkCost is the cost of an authorization check, which may call a webhook. The cost limit allows an
// expression two checks.
const checkCost = 350_000

func checkCostModel() costModel {
	return costModel{actual: func(executedCall) *uint64 { return actualCost(checkCost) }}
}

// selectorCostModel returns the cost model for parsing a selector. A selector has at most one requirement for
// every two characters.
func selectorCostModel() costModel {
	return costModel{actual: func(c executedCall) *uint64 {
		if len(c.args) < 2 {
			return nil
		}
		length := float64(size(c.args[1]))
		requirements := math.Ceil(length/2) * (common.ListCreateBaseCost + common.StructCreateBaseCost)
		return actualCost(common.ListCreateBaseCost + readCost(uint64(length), 1) + uint64(requirements))
	}}
}
