test('it is not come to', () => {});
