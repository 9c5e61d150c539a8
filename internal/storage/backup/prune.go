package backup

import "time"

// prune deletes the objects that are not needed to restore states within the retention.
func (w *Writer) prune() {
	catalog, err := ReadCatalog(w.ctx, w.config.Target)
	if err != nil {
		w.log.Warn("old objects of the backup were not deleted", "err", err)
		return
	}
	for _, name := range catalog.obsolete(time.Now().Add(-w.config.Retention)) {
		if err := w.config.Target.Delete(w.ctx, name); err != nil {
			w.log.Warn("old objects of the backup were not deleted", "err", err)
			return
		}
	}
}

// obsolete returns the names of the objects that are not needed to restore the states since oldest. It keeps
// the newest generation.
func (c *Catalog) obsolete(oldest time.Time) []string {
	var names []string
	for i := range c.Generations {
		g := &c.Generations[i]
		_, end := g.Newest()
		if ended := i < len(c.Generations)-1 && end.Before(oldest); ended {
			names = append(names, g.objects(func(*Base) bool { return true }, func(*Segment) bool { return true })...)
			continue
		}
		if first := g.baseFor(Moment{Time: oldest}); first != nil {
			names = append(names, g.objects(
				func(b *Base) bool { return b.Revision < first.Revision },
				func(s *Segment) bool { return s.Last <= first.Revision },
			)...)
		}
	}
	return names
}

// objects returns the names of the selected objects, oldest first.
func (g *Generation) objects(bases func(*Base) bool, segments func(*Segment) bool) []string {
	var names []string
	for i := range g.Bases {
		if bases(&g.Bases[i]) {
			names = append(names, g.Bases[i].Name)
		}
	}
	for i := range g.Segments {
		if segments(&g.Segments[i]) {
			names = append(names, g.Segments[i].Name)
		}
	}
	return names
}
