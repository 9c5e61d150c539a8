package library

import "github.com/google/cel-go/cel"

// library is a set of functions that an environment includes at most once.
type library struct {
	name    string
	options []cel.EnvOption
	program []cel.ProgramOption
}

var _ cel.SingletonLibrary = library{}

// All returns all libraries of this package. The result belongs to one environment.
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

// LibraryName implements cel.SingletonLibrary.
func (l library) LibraryName() string { return l.name }

// CompileOptions are the types and functions of the library.
func (l library) CompileOptions() []cel.EnvOption { return l.options }

// ProgramOptions are how calls of the functions are evaluated.
func (l library) ProgramOptions() []cel.ProgramOption { return l.program }

// signature returns the argument types of an overload; the first one of a member function is its
// receiver.
func signature(types ...*cel.Type) []*cel.Type { return types }
