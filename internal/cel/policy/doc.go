// Package policy checks, compiles and evaluates the CEL expressions of admission: validations, variables,
// mutations and match conditions. Variables, types, costs and error messages are the same as in kube-apiserver.
// A Compiler creates Programs from the expressions of one policy. An Input provides the variables for one
// request, and a Budget limits the cost. The packages in internal/admission interpret the results.
package policy
