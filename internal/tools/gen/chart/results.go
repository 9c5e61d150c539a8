package main

import (
	"fmt"
	"strconv"
	"strings"
)

// results is the content of a result file.
type results struct {
	// title is the heading of the chart.
	title string
	// measured is the date, machine and command of the measurement.
	measured string
	rows     []row
}

// row is one measured operation. Smaller values are better.
type row struct {
	name, unit     string
	peer, mainstay float64
	// chart is set if the row appears in the chart.
	chart bool
}

// ratio returns Mainstay's value divided by the peer's value.
func (r row) ratio() float64 { return r.mainstay / r.peer }

// parseResults parses a result file. A line "# title: ..." or "# measured: ..." sets a field, other
// lines that start with "#" are comments, and each remaining line has five columns, separated by
// tabs: operation, unit, value of the peer, value of Mainstay, and "chart" or nothing.
func parseResults(text string) (results, error) {
	var r results
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "# title: "):
			r.title = strings.TrimPrefix(line, "# title: ")
		case strings.HasPrefix(line, "# measured: "):
			r.measured = strings.TrimPrefix(line, "# measured: ")
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			parsed, err := parseRow(line)
			if err != nil {
				return results{}, fmt.Errorf("line %d: %w", number, err)
			}
			r.rows = append(r.rows, parsed)
		}
	}
	if r.title == "" || r.measured == "" || len(r.rows) == 0 {
		return results{}, fmt.Errorf("the file needs a title, a line about the measurement, and at least one row")
	}
	return r, nil
}

func parseRow(line string) (row, error) {
	columns := strings.Split(line, "\t")
	if len(columns) != 4 && len(columns) != 5 {
		return row{}, fmt.Errorf("%d columns instead of 4 or 5", len(columns))
	}
	r := row{name: columns[0], unit: columns[1]}
	for i, value := range []*float64{&r.peer, &r.mainstay} {
		parsed, err := strconv.ParseFloat(columns[2+i], 64)
		if err != nil {
			return row{}, err
		}
		if parsed <= 0 {
			return row{}, fmt.Errorf("%q is not positive", columns[2+i])
		}
		*value = parsed
	}
	if len(columns) == 5 {
		if columns[4] != "chart" {
			return row{}, fmt.Errorf("the fifth column is %q instead of \"chart\"", columns[4])
		}
		r.chart = true
	}
	return r, nil
}
