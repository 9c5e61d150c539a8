package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is an error in the command line. It results in the exit code exitUsage.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// suggestionDistance is the maximum edit distance between an unknown command and a suggested one,
// as in cobra.
const suggestionDistance = 2

// unknownCommand returns an error if a command that has only subcommands receives arguments. The error suggests
// similar subcommands.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = suggestionDistance
	text := fmt.Sprintf("unknown command %q", args[0])
	var quoted []string
	names := c.SuggestionsFor(args[0])
	slices.Sort(names)
	for _, name := range slices.Compact(names) { // cobra lists a name once for each reason
		quoted = append(quoted, strconv.Quote(c.CommandPath()+" "+name))
	}
	if len(quoted) > 0 {
		text += "; did you mean " + strings.Join(quoted, " or ") + "?"
	}
	return &usageError{errors.New(text)}
}

// noArgs returns an error if a command that accepts only flags receives arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("%s accepts no arguments, but got %q", c.CommandPath(), args[0])}
	}
	return nil
}

// flagError converts an error of pflag to a usageError. For an invalid value, it replaces the message of pflag
// or strconv with a description of the expected value.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return &usageError{err}
	}
	flag, cause := invalid.GetFlag(), errors.Unwrap(err)
	var number *strconv.NumError
	what := ""
	switch {
	case errors.As(cause, &number) && flag.Value.Type() == "bool":
		what = "true or false"
	case errors.As(cause, &number):
		what = "a number"
	case strings.HasPrefix(cause.Error(), "time: "):
		what = "a duration such as 30s or 5m"
	default:
		return &usageError{fmt.Errorf("--%s is %q: %w", flag.Name, invalid.GetValue(), cause)}
	}
	return &usageError{fmt.Errorf("--%s is %q; it must be %s", flag.Name, invalid.GetValue(), what)}
}
