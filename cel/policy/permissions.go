package policy

import "github.com/google/cel-go/cel"

func authorizerType() *cel.Type    { return cel.ObjectType("kubernetes.authorization.Authorizer") }
func pathCheckType() *cel.Type     { return cel.ObjectType("kubernetes.authorization.PathCheck") }
func groupCheckType() *cel.Type    { return cel.ObjectType("kubernetes.authorization.GroupCheck") }
func resourceCheckType() *cel.Type { return cel.ObjectType("kubernetes.authorization.ResourceCheck") }
func decisionType() *cel.Type      { return cel.ObjectType("kubernetes.authorization.Decision") }

// permissions declares what an authorizer is asked with:
//
//	authorizer.group('apps').resource('deployments').namespace('a').check('create').allowed()
func permissions() []cel.EnvOption {
	member := func(name, overload string, result, of *cel.Type, arguments ...*cel.Type) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(overload, append([]*cel.Type{of}, arguments...), result))
	}
	authorizer, path, group, resource, decision := authorizerType(), pathCheckType(), groupCheckType(), resourceCheckType(), decisionType()
	return []cel.EnvOption{
		member("path", "authorizer_path", path, authorizer, cel.StringType),
		member("group", "authorizer_group", group, authorizer, cel.StringType),
		member("serviceAccount", "authorizer_serviceaccount", authorizer, authorizer, cel.StringType, cel.StringType),
		member("resource", "groupcheck_resource", resource, group, cel.StringType),
		member("subresource", "resourcecheck_subresource", resource, resource, cel.StringType),
		member("namespace", "resourcecheck_namespace", resource, resource, cel.StringType),
		member("name", "resourcecheck_name", resource, resource, cel.StringType),
		member("fieldSelector", "authorizer_fieldselector", resource, resource, cel.StringType),
		member("labelSelector", "authorizer_labelselector", resource, resource, cel.StringType),
		member("check", "pathcheck_check", decision, path, cel.StringType),
		member("check", "resourcecheck_check", decision, resource, cel.StringType),
		member("errored", "decision_errored", cel.BoolType, decision),
		member("error", "decision_error", cel.StringType, decision),
		member("allowed", "decision_allowed", cel.BoolType, decision),
		member("reason", "decision_reason", cel.StringType, decision),
	}
}
