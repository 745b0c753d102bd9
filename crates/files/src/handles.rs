//! A bounded number of open files; the one that was not used for longest is closed first. Opens nothing by itself.

use std::collections::BTreeMap;

/// Open files by number.
#[derive(Debug)]
pub(crate) struct Handles<F> {
    by_number: BTreeMap<u64, (u64, F)>,
    /// Numbers by when they were last used.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    most: usize,
}

impl<F> Handles<F> {
    /// None is open, and so many may be.
    pub fn new(most: usize) -> Handles<F> {
        assert!(most > 0, "a file must be open to be used");
        Handles { by_number: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, most }
    }

    /// The open file of this number, opened if it is not.
    pub fn get<E>(&mut self, number: u64, open: impl FnOnce() -> Result<F, E>) -> Result<&mut F, E> {
        self.uses += 1;
        let (used, file) = match self.by_number.remove(&number) {
            Some(known) => known,
            None => (self.uses, open()?),
        };
        self.by_use.remove(&used);
        if self.by_number.len() >= self.most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_number.remove(&oldest);
        }
        self.by_use.insert(self.uses, number);
        let (_, file) = self.by_number.entry(number).or_insert((self.uses, file));
        Ok(file)
    }

    /// Closes the file of this number.
    pub fn close(&mut self, number: u64) {
        if let Some((used, _)) = self.by_number.remove(&number) {
            self.by_use.remove(&used);
        }
    }

    #[cfg(test)]
    fn numbers(&self) -> Vec<u64> {
        assert_eq!(self.by_number.len(), self.by_use.len());
        self.by_number.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_used_is_closed_first() {
        let mut handles = Handles::new(3);
        let mut opened = Vec::new();
        for number in [1, 2, 3, 1, 4, 2, 1, 1, 5] {
            let file = handles.get(number, || {
                opened.push(number);
                Ok::<u64, ()>(number)
            });
            assert_eq!(file, Ok(&mut number.clone()));
        }
        assert_eq!(opened, [1, 2, 3, 4, 2, 5]);
        assert_eq!(handles.numbers(), [1, 2, 5]);
        handles.close(2);
        handles.close(7);
        assert_eq!(handles.numbers(), [1, 5]);
        assert_eq!(handles.get(9, || Err::<u64, _>("no")), Err("no"));
        assert_eq!(handles.numbers(), [1, 5]);
    }
}
