package library

import "github.com/google/cel-go/cel"

// library is a set of functions that an environment has once, however often it is
// asked to take it.
type library struct {
	name    string
	options []cel.EnvOption
	program []cel.ProgramOption
}

var _ cel.SingletonLibrary = library{}

// All is every library of this package. The result belongs to one environment:
// make it anew for another one.
func All() cel.EnvOption {
	libraries := []cel.EnvOption{Lists(), Regex(), URLs(), IP(), CIDR(), Quantity(), Formats(), Semver()}
	return func(env *cel.Env) (*cel.Env, error) {
		for _, option := range libraries {
			var err error
			if env, err = option(env); err != nil {
				return nil, err
			}
		}
		return env, nil
	}
}

// LibraryName is what the environment knows the library by.
func (l library) LibraryName() string { return l.name }

// CompileOptions are the types and functions of the library.
func (l library) CompileOptions() []cel.EnvOption { return l.options }

// ProgramOptions are how calls of the functions are evaluated.
func (l library) ProgramOptions() []cel.ProgramOption { return l.program }

// signature is the types of the arguments of an overload; a member's first is what
// it is called on.
func signature(types ...*cel.Type) []*cel.Type { return types }
